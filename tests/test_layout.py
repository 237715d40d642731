"""The layout of source and tests: where a reader looks for a module, for its tests, and for what tests share."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS_OF_THE_WHOLE = frozenset({"conformance", "docs", "e2e", "examples", "fuzz", "growth", "operators"})
"""Directories of tests that belong to no package."""

SERIES = frozenset(
    {
        "apiserver/admission",  # an admission plug-in each
        "apiserver/registry/kinds",  # a kind each
        "cli",  # a command each
        "cli/kubectl",  # a command each
        "scheduler/plugins",  # a plug-in each
    }
)
"""Packages with many modules that are alike, so that a reader knows in which one to look."""
MOST_MODULES = 23


def test_tests_mirror_the_source(repository: Path) -> None:
    """`tests/p/test_x.py` and `tests/p/test_x_aspect.py` test the module or package x of p, or the package p itself."""
    astray = [
        str(module.relative_to(repository))
        for module in _test_modules(repository)
        if not any(_is_about(module, name) for name in _names_in(_mirrored(repository, module.parent)))
    ]
    assert astray == []


def test_no_test_module_is_a_library(repository: Path) -> None:
    """What test modules share is in a module of its own: importing a test module runs what is in it."""
    borrowed = [
        f"{path.relative_to(repository)}:{line}: {name}"
        for path in sorted((repository / "tests").rglob("*.py"))
        for line, name in _imported_modules(path)
        if name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")
    ]
    assert borrowed == []


def test_packages_have_rooms(repository: Path) -> None:
    source = repository / "src/sampan"
    sizes = {
        str(package.parent.relative_to(source)): len([*package.parent.glob("*.py")])
        for package in source.rglob("__init__.py")
        if "types" not in package.parts
    }
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES and name not in SERIES} == {}
    assert {name for name in SERIES if sizes.get(name, 0) <= MOST_MODULES} == set()


def _test_modules(repository: Path) -> Iterator[Path]:
    tests = repository / "tests"
    for module in sorted(tests.rglob("test_*.py")):
        directory = module.parent.relative_to(tests).parts
        if directory and directory[0] not in TESTS_OF_THE_WHOLE:
            yield module


def _mirrored(repository: Path, directory: Path) -> Path:
    return repository / "src/sampan" / directory.relative_to(repository / "tests")


def _names_in(package: Path) -> set[str]:
    if not package.is_dir():
        return set()
    return {package.name} | {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}


def _is_about(test: Path, name: str) -> bool:
    subject = test.stem.removeprefix("test_")
    return subject == name or subject.startswith(f"{name}_")


def _imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
