"""Published Go modules, whose programs and manifests tests use as they are.

Each program is built once for each version, with the dependencies and replacements of its own module: the module is the
main module of the build, and only its go.mod is copied, because the module cache is read-only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.programs import go_environment, program_cache
from tests.operators.go_program import BUILD_FLAGS, build_once_or_skip

NEEDS_TIME_TO_BUILD = pytest.mark.timeout(3600)
"""With empty caches, the build of a program takes 100 to 400 s of CPU time."""


@dataclass(frozen=True, slots=True)
class GoModule:
    path: str
    version: str
    flags: Sequence[str] = ()
    """Flags of `go build`, such as tags."""

    def build_or_skip(self, package: str = ".", name: str = "") -> Path:
        """Return the program of a package, or skip the test with the reason why there is none."""
        target = self._cache() / (name or (self.path if package == "." else package).rpartition("/")[2])
        return build_once_or_skip(target, lambda program: self._build(package, program))

    def files_or_skip(self, *patterns: str) -> list[Path]:
        """Return copies of the files of the module that match the patterns, in their order, or skip the test."""
        name = hashlib.sha256("\n".join(patterns).encode()).hexdigest()[:16]
        directory = build_once_or_skip(self._cache() / f"files-{name}", lambda copies: self._copy(patterns, copies))
        return sorted(path for path in directory.iterdir())

    def _cache(self) -> Path:
        return program_cache() / "operators" / "modules" / f"{self.path.replace('/', '-')}@{self.version}"

    def _build(self, package: str, program: Path) -> None:
        source = self._download()
        with tempfile.TemporaryDirectory(prefix="sampan-go-") as scratch:
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(source / name, Path(scratch, name))
            command = ["go", "build", f"-modfile={scratch}/go.mod", "-mod=mod", *BUILD_FLAGS, *self.flags]
            subprocess.run([*command, "-o", str(program), package], cwd=source, env=_environment(), check=True)

    def _copy(self, patterns: Sequence[str], copies: Path) -> None:
        source = self._download()
        paths = [path for pattern in patterns for path in sorted(source.glob(pattern))]
        assert paths, f"{self.path}@{self.version} has no file {' or '.join(patterns)}"
        copies.mkdir()
        for number, path in enumerate(paths):
            shutil.copyfile(path, copies / f"{number:03}-{path.name}")

    def _download(self) -> Path:
        """Return the directory of the module in the module cache."""
        with tempfile.TemporaryDirectory(prefix="sampan-go-") as scratch:
            command = ["go", "mod", "download", "-json", f"{self.path}@{self.version}"]
            done = subprocess.run(command, cwd=scratch, env=_environment(), capture_output=True, text=True)
        download = json.loads(done.stdout)
        assert "Dir" in download, f"{self.path}@{self.version}: {download.get('Error') or done.stderr}"
        return Path(download["Dir"])


def _environment() -> dict[str, str]:
    return {**go_environment(), "GOWORK": "off"}
