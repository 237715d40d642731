"""Builds programs of the tests from Go modules, once for each state of their source.

With empty caches of Go that takes 200 s of CPU time, too much for every `make test`, which therefore uses a program
only if it has been built before. `make operators` builds them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.programs import go_environment, program_cache

HERE = Path(__file__).parent
_SUFFIXES = (".go", ".mod", ".sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    name: str
    source: Path
    """The directory of the Go module."""
    build: Sequence[str]
    """The words after `go` that build it, up to the name of the output file."""
    package: str = "."

    def build_or_skip(self) -> Path:
        """Return the path of the program, or skip the test with the reason why there is none."""
        target = program_cache() / "operators" / self._source_hash() / self.name
        if target.exists():
            return target
        if shutil.which("go") is None:
            pytest.skip(f"Go is not installed (1.26 or later): {self.name} is built from Go modules")
        if not os.environ.get("SAMPAN_BUILD_OPERATORS"):
            pytest.skip(f"{self.name} has not been built yet: `make operators` builds it")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"partial-{os.getpid()}")
        command = ["go", *self.build, "-trimpath", "-ldflags", "-s -w", "-o", str(partial), self.package]
        subprocess.run(command, cwd=self.source, env=go_environment(), check=True)
        partial.rename(target)
        return target

    def _source_hash(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(path for path in self.source.rglob("*") if path.suffix in _SUFFIXES):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


SHOP_OPERATOR = GoProgram(name="shop-operator", source=HERE / "go", build=("build",))
GUESTBOOK_SUITE = GoProgram(
    name="guestbook.test", source=HERE / "envtest", build=("test", "-c"), package="./internal/controller"
)
"""The envtest suite of a project in the layout of kubebuilder."""
