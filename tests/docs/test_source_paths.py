"""The files and packages of the source that pages name."""

import re
from pathlib import Path

_MODULE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py)`")
_PACKAGE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)`")
_PLACEHOLDERS = re.compile("[A-Z]{3,}")
_OTHER_PROJECTS = {"bench/sched_load.py"}


def test_modules_that_pages_name_exist(repository: Path) -> None:
    """A page may leave out the first directories of a path."""
    files = [f"/{path.relative_to(repository)}" for top in _TOPS for path in (repository / top).rglob("*.py")]
    pages = [*repository.glob("*.md"), *repository.glob("docs/**/*.md")]
    named = {(page.name, path) for page in pages for path in _MODULE.findall(page.read_text())}
    assert len(named) > 100
    missing = {
        (page, path)
        for page, path in named
        if not any(file.endswith(f"/{path}") for file in files)
        and not _PLACEHOLDERS.search(path)
        and path not in _OTHER_PROJECTS
    }
    assert missing == set()


def test_packages_that_the_glossary_names_exist(repository: Path) -> None:
    source = repository / "src/sampan"
    places = [column for line in (repository / "docs/glossary.md").read_text().splitlines() for column in _last(line)]
    named = {package for column in places for package in _PACKAGE.findall(column)}
    assert len(named) > 20
    assert {package for package in named if not (source / package).exists()} <= {"src/sampan"}


def _last(line: str) -> list[str]:
    """Return the last column of a row of a table."""
    return [line.rstrip(" |").rpartition("|")[2]] if line.startswith("|") else []


_TOPS = ("src", "tests", "tools", "benchmarks", "examples")
