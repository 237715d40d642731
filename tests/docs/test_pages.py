"""Every block of the documentation works as a reader runs it, in the order of its page."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.console import Console, matches
from tests.docs.pages import Action, PageError, Step, steps
from tests.skips import requires

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("*/README.md")),
    *sorted(path for path in ROOT.glob("docs/*.md") if path.name != "README.md"),
    *sorted(ROOT.glob("examples/**/README.md")),
]
"""Pages with commands for users."""


def has_steps(page: Path, is_on_real_nodes: bool) -> bool:
    """Return whether the page has something to run there; a page that cannot be read fails its test, not all tests."""
    try:
        return any(step.is_on_real_nodes is is_on_real_nodes for step in steps(page.read_text()))
    except PageError:
        return True


def pages_with_steps(is_on_real_nodes: bool) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if has_steps(page, is_on_real_nodes)]


@pytest.fixture
def console(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Console]:
    """A shell in a copy of the examples: beside them for a page, and among them for the page of an example."""
    page: Path = request.getfixturevalue("page")
    checkout = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", checkout / "examples", ignore=ignore)
    directory = page.parent.relative_to(ROOT)
    with Console(tmp_path, checkout / directory if directory.parts[:1] == ("examples",) else checkout) as console:
        yield console


@pytest.mark.parametrize("page", pages_with_steps(is_on_real_nodes=False))
def test_blocks_run(page: Path, console: Console) -> None:
    perform(page, console, is_on_real_nodes=False)


@requires("root", "crun or runc")
@pytest.mark.parametrize("page", pages_with_steps(is_on_real_nodes=True))
def test_blocks_run_on_real_nodes(page: Path, console: Console) -> None:
    perform(page, console, is_on_real_nodes=True)


def perform(page: Path, console: Console, *, is_on_real_nodes: bool) -> None:
    for step in steps(page.read_text()):
        if step.is_on_real_nodes is is_on_real_nodes:
            console.perform(step)


def test_steps_of_a_page() -> None:
    page = "Save it as `a.yaml`:\n\n```yaml\nx: 1\n```\n\n```\n$ cat a.yaml \\\n>  b\nx: 1\n$ true\n```\n"
    page += "\n```yaml\nz: 1\n```\n\n1. ok\n\n   ```\n   true\n   ```\n```python\ndef test_a(): ...\n```\n"
    page += "A comment such as `<!-- not run: -->` in a line is text.\n"
    assert list(steps(page)) == [
        Step(Action.SAVE, "x: 1\n", file="a.yaml"),
        Step(Action.COMPARE, "cat a.yaml   b", ("x: 1",)),
        Step(Action.COMPARE, "true"),
        Step(Action.APPLY, "z: 1\n"),
        Step(Action.RUN, "true\n"),
        Step(Action.PYTEST, "def test_a(): ...\n"),
    ]


def test_comments_of_a_page() -> None:
    page = "<!-- run: sampan up -->\n<!-- saved as b.py -->\n```python\nx\n```\n"
    page += "<!-- not run: needs Docker -->\n```\ny\n```\n<!-- on real nodes -->\n"
    page += "<!-- each line for at most 2 s -->\n```\nz\n```\n<!-- run on real nodes: true -->\n"
    assert list(steps(page)) == [
        Step(Action.RUN, "sampan up"),
        Step(Action.SAVE, "x\n", file="b.py"),
        Step(Action.RUN, "z\n", timeout_s=2, is_on_real_nodes=True),
        Step(Action.RUN, "true", is_on_real_nodes=True),
    ]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("```text\ndiagram\n```\n", "neither run nor marked"),
        ("<!-- not run: -->\n```\ny\n```\n", "needs a reason"),
        ("<!-- not run: needs Docker -->\nWords.\n```\ny\n```\n", "not directly before its block"),
        ("<!-- not run: needs Docker -->\n", "no block after"),
        ("~~~\ny\n~~~\n", "fence"),
        ("<!-- never: -->\n```\ny\n```\n", "unknown comment"),
    ],
)
def test_every_block_is_run_or_has_a_reason(page: str, problem: str) -> None:
    with pytest.raises(PageError, match=problem):
        list(steps(page))


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        (["node-0   Ready   8s"], ["node-0    Ready   12s"], True),
        (["node-0   Ready   8s"], ["node-0   NotReady   8s"], False),
        (["web-5c4798c59b-26d8z   1/1"], ["web-7d9f8b6c5d-x2x9z   1/1"], True),
        (["web-5c4798c59b-26d8z   1/1"], ["app-7d9f8b6c5d-x2x9z   1/1"], False),
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "b"], False),
        (["last tried 1s ago…"], ["last tried 3s ago (attempt 2)"], True),
        (["deployment.apps/web created"], ["deployment.apps/web unchanged"], False),
        ([], ["anything"], True),
    ],
)
def test_output_is_compared_with_the_page(expected: list[str], printed: list[str], is_same: bool) -> None:
    assert matches(tuple(expected), printed) is is_same
