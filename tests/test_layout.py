"""The layout of source and tests: size of packages, place of test modules, and shared test code."""

import ast
from collections.abc import Iterator
from pathlib import Path

CROSS_PACKAGE_TESTS = frozenset({"conformance", "docs", "e2e", "examples", "fuzz", "growth", "operators"})
"""Directories of tests that belong to no single package."""

SERIES = frozenset(
    {
        "apiserver/admission",  # an admission plugin each
        "apiserver/registry/kinds",  # a kind each
        "cli",  # a command each
        "kubectl/commands",  # a command each
        "scheduler/plugins",  # a plugin each
    }
)
"""Packages with a series of modules of the same form, named after what they implement."""
MOST_MODULES = 23


def test_tests_mirror_the_source(repository: Path) -> None:
    """`tests/p/test_x.py` and `tests/p/test_x_aspect.py` test the module or package x of p, or the package p itself."""
    misplaced = [
        str(module.relative_to(repository))
        for module in _test_modules(repository)
        if not any(_is_about(module, name) for name in _names_in(_find_source_directory(repository, module.parent)))
    ]
    assert misplaced == []


def test_no_module_imports_a_test_module(repository: Path) -> None:
    """Shared code has a module of its own, because an import of a test module also imports its tests and fixtures."""
    imports = [
        f"{path.relative_to(repository)}:{line}: {name}"
        for path in sorted((repository / "tests").rglob("*.py"))
        for line, name in _imported_modules(path)
        if name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")
    ]
    assert imports == []


def test_packages_have_at_most_23_modules(repository: Path) -> None:
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
        if directory and directory[0] not in CROSS_PACKAGE_TESTS:
            yield module


def _find_source_directory(repository: Path, directory: Path) -> Path:
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
