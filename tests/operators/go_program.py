"""Builds programs of the tests from Go modules and other packages, once for each state of their source.

With empty caches of Go that takes 200 s of CPU time, too much for every `make test`, which therefore uses a program
only if it has been built before. `make operators` builds them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance import programs
from tests.conformance.programs import go_environment, program_cache

HERE = Path(__file__).parent
BUILD_FLAGS = ("-trimpath", "-ldflags", "-s -w")
_TOOLS = {"go": "Go 1.26 or later", "mvn": "Maven", "npm": "Node.js", "cargo": "Rust", "python3": "Python"}
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
        return build_once_or_skip(self.path, self._build)

    @property
    def path(self) -> Path:
        """The path of the program, which exists once it has been built."""
        return program_cache() / "operators" / self._source_hash() / self.name

    def _build(self, target: Path) -> None:
        command = ["go", *self.build, *BUILD_FLAGS, "-o", str(target), self.package]
        subprocess.run(command, cwd=self.source, env=go_environment(), check=True)

    def _source_hash(self) -> str:
        return hash_files(path for path in self.source.rglob("*") if path.suffix in _SUFFIXES)


def hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build_once_or_skip(target: Path, build: Callable[[Path], object], tool: str = "go") -> Path:
    """Return a file or directory that a tool builds, or skip the test with the reason why there is none."""
    if target.exists():
        return target
    if shutil.which(tool) is None:
        pytest.skip(f"{_TOOLS[tool]} is not installed: {target.name} is built with it")
    if not os.environ.get("SAMPAN_BUILD_OPERATORS"):
        pytest.skip(f"{target.name} has not been built yet: `make operators` builds it")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"partial-{os.getpid()}")
    build(partial)
    partial.rename(target)
    return target


SHOP_OPERATOR = GoProgram(name="shop-operator", source=HERE / "go", build=("build",))
GUESTBOOK_SUITE = GoProgram(
    name="guestbook.test", source=HERE / "envtest", build=("test", "-c"), package="./internal/controller"
)
"""The envtest suite of a project in the layout of kubebuilder."""
COREDNS = GoProgram(name="coredns", source=HERE / "coredns", build=("build",))
"""CoreDNS with the plugins that the configuration of a cluster names."""
COLLECTOR = GoProgram(name="collector", source=HERE / "opentelemetry", build=("build",))
"""An OpenTelemetry collector with the receivers that read a cluster."""
AGNHOST = GoProgram(
    name=programs.AGNHOST.name, source=programs.LATEST.modules, build=("build",), package=programs.AGNHOST.package
)
"""The program of most test images of Kubernetes."""
