"""The tests here are called what the conformance suite calls them, and those of sig-apps are all there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
GROUP = "[sig-"


def plain(name: str) -> str:
    """On one line, without the marks at its end."""
    name = " ".join(name.split())
    while name.endswith("]"):
        name = name[: name.rindex("[")].rstrip()
    return name


def told() -> Iterator[str]:
    """The first paragraphs of texts, tests' own or ids of their cases, that name a group of the suite."""
    for path in sorted(HERE.glob("*/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(GROUP):
                yield plain(node.value.partition("\n\n")[0])


@pytest.fixture
def names(shared_dir: Path) -> set[str]:
    text = (shared_dir / "reference" / "conformance-v1.36.yaml").read_text()
    return {plain(found["codename"]) for found in yaml.safe_load(text)}


def test_every_name_is_one_of_the_suite(names: set[str]) -> None:
    assert sorted(set(told()) - names) == []


def test_all_of_sig_apps_are_there(names: set[str]) -> None:
    wanted = {name for name in names if name.startswith(f"{GROUP}apps]")}
    assert len(wanted) == 60
    assert sorted(wanted - set(told())) == []


def test_all_of_sig_scheduling_are_there(names: set[str]) -> None:
    wanted = {name for name in names if name.startswith(f"{GROUP}scheduling]")}
    assert len(wanted) == 11
    assert sorted(wanted - set(told())) == []


def test_all_of_sig_storage_are_there(names: set[str]) -> None:
    wanted = {name for name in names if name.startswith(f"{GROUP}storage]")}
    assert len(wanted) == 91
    assert sorted(wanted - set(told())) == []
