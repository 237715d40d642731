"""Which tests are unit tests, for `make check`: those of a package that start no program and no cluster.

They need no root, no network namespace and no browser. The rule reads the test modules, so that there is no list to
maintain.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src/sampan"
_WHOLE_MACHINES = ("cli", "cluster", "testing")
"""Packages whose tests start programs or clusters, by means of which their modules need not show."""
_PROGRAMS = re.compile(
    r"^\s*(?:import|from) (?:subprocess|multiprocessing|pty)\b"
    r"|^\s*from sampan\.(?:cli|cluster\.assembly|testing\.cluster)\b"
    r"|^\s*from sampan\.testing import .*\bCluster\b"
    r"|create_subprocess|geteuid|\bunshare\b|\bsetns\b",
    re.MULTILINE,
)
_SHARED_MODULE = re.compile(r"^\s*from (tests[.\w]*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def is_unit_test(module: Path) -> bool:
    """Whether the tests of a module are those of a package, and neither they nor what they share start a program."""
    package = module.relative_to(TESTS).parts[0]
    if not (SOURCE / package).is_dir() or package in _WHOLE_MACHINES:
        return False
    directories = [directory for directory in module.parents if directory.is_relative_to(TESTS) and directory != TESTS]
    fixtures = [path for directory in directories if (path := directory / "conftest.py").is_file()]
    return not any(starts_programs(path) for path in (module, *fixtures))


@cache
def starts_programs(module: Path) -> bool:
    text = module.read_text()
    return _PROGRAMS.search(text) is not None or any(starts_programs(path) for path in _list_shared_modules(text))


def _list_shared_modules(text: str) -> set[Path]:
    """Return the modules below tests that a module imports."""
    paths = set()
    for package, several, single in _SHARED_MODULE.findall(text):
        place = TESTS.joinpath(*package.split(".")[1:])
        names = re.findall(r"\w+", several or single)
        paths |= (
            {place.with_suffix(".py"), *(place / f"{name}.py" for name in names)}
            if place != TESTS
            else {place / f"{name}.py" for name in names}
        )
    return {path for path in paths if path.is_file()}
