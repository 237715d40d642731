"""Builds the operator in `go/` from Go modules, once for each state of its source.

With empty caches of Go that takes 200 s of CPU time, too much for every `make test`, which therefore uses the program
only if it has been built before. `make operators` builds it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.programs import go_environment, program_cache

SOURCE = Path(__file__).parent / "go"
_SUFFIXES = (".go", ".mod", ".sum")


def build_or_skip() -> Path:
    """Return the path of the program, or skip the test with the reason why there is none."""
    target = program_cache() / "operators" / _source_hash() / "shop-operator"
    if target.exists():
        return target
    if shutil.which("go") is None:
        pytest.skip("Go is not installed (1.26 or later): the operator is built from Go modules")
    if not os.environ.get("SAMPAN_BUILD_OPERATORS"):
        pytest.skip("the operator in Go has not been built yet: `make operators` builds it")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"partial-{os.getpid()}")
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(partial), "."]
    subprocess.run(command, cwd=SOURCE, env=go_environment(), check=True)
    partial.rename(target)
    return target


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCE.rglob("*") if path.suffix in _SUFFIXES):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
