"""Published Python packages in virtual environments of their own, apart from the dependencies of Sampan."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.programs import program_cache
from tests.operators.go_program import build_once_or_skip


@dataclass(frozen=True, slots=True)
class PythonPackages:
    name: str
    requirements: Sequence[str]
    """Packages with their versions, as pip takes them."""

    def interpreter_or_skip(self) -> Path:
        """Return the Python of the environment, or skip the test with the reason why there is none.

        Programs of the packages are started as its modules: their scripts name the directory of the build.
        """
        key = hashlib.sha256("\n".join((sys.version, *self.requirements)).encode()).hexdigest()[:16]
        directory = program_cache() / "operators" / "python" / key / self.name
        return build_once_or_skip(directory, self._install, "python3") / "bin/python"

    def _install(self, directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        subprocess.run([str(directory / "bin/python"), "-m", "pip", "install", "-q", *self.requirements], check=True)
