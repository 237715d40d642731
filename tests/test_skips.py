"""The reasons of skips: each says what is missing, and the summary says how to get it."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.skips import find_missing, find_remedy, summarize_skips

pytest_plugins = ["pytester"]


def list_literal_reasons(repository: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield the texts of `pytest.skip(…)` and of `reason=…` of skip marks; placeholders of f-strings become "x"."""
    for path in sorted((repository / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".skip", ".skipif")):
                reasons = [word.value for word in node.keywords if word.arg == "reason"]
                reasons += node.args[:1] if ast.unparse(node.func).endswith(".skip") else []
                for reason in reasons:
                    if text := format_literal(reason):
                        yield path, node.lineno, text


def format_literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return ""


def test_every_reason_of_a_skip_has_a_remedy(repository: Path) -> None:
    reasons = [item for item in list_literal_reasons(repository) if item[0].name != Path(__file__).name]
    assert len(reasons) > 40
    assert [f"{path}:{line}: {text}" for path, line, text in reasons if not find_remedy(text)] == []


def test_missing_requirements_are_named_with_a_remedy_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/crun" if name == "crun" else None)
    missing = find_missing("crun or runc", "busybox", "dockerd", "containerd", "setpriv")
    assert missing == "not here: busybox, dockerd, containerd, setpriv"
    assert find_remedy(missing) == (
        "apt install busybox-static; apt install docker.io; apt install containerd; apt install util-linux"
    )
    assert find_missing("crun or runc") == ""


def test_skips_are_counted_by_reason() -> None:
    lines = summarize_skips(["Skipped: git is not installed", "needs root", "Skipped: git is not installed", "odd"])
    assert lines == [
        "    2 git is not installed [apt install git]",
        "    1 needs root [run the tests as root]",
        "    1 odd",
    ]


def test_summary_of_skips_is_above_the_last_line(
    pytester: pytest.Pytester, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.delenv("CHECKS", raising=False)
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_skipped(number):
            pytest.skip("there is no curl here")

        def test_passed():
            pass
    """)
    result = pytester.runpytest_subprocess("-q", "-p", "no:sampan")
    lines = [line for line in result.outlines if line]
    assert "    3 there is no curl here [apt install curl]" in lines
    assert lines[-1].startswith("1 passed, 3 skipped in")
