"""The text form of taints and their effect on a node."""

from __future__ import annotations

import pytest

from sampan.kubectl.commands.taint import change_taints, check_conflicts, parse_taint_changes
from sampan.machinery.cli_errors import CliError

A = {"key": "a", "value": "b", "effect": "NoSchedule"}


def test_parse() -> None:
    assert parse_taint_changes(["a=b:NoSchedule", "c:NoExecute", "d-", "e:NoExecute-"]) == (
        [A, {"key": "c", "effect": "NoExecute"}],
        [{"key": "d"}, {"key": "e", "effect": "NoExecute"}],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b", "invalid taint spec: a=b, "),
        ("a:b:c", "invalid taint spec: a:b:c"),
        ("a", "invalid taint spec: a"),
        ("a=b:Foo", "invalid taint effect: Foo, unsupported taint effect"),
        ("a=b=c:NoSchedule", "invalid taint spec: a=b=c:NoSchedule"),
    ],
)
def test_parse_errors(text: str, message: str) -> None:
    with pytest.raises(CliError) as error:
        parse_taint_changes([text])
    assert error.value.message.startswith(message)


@pytest.mark.parametrize(
    ("current", "changes", "overwrite", "operation", "keys"),
    [
        ([], ["a=b:NoSchedule"], False, "tainted", ["a"]),
        ([A], ["c:NoExecute"], False, "tainted", ["c", "a"]),
        ([A], ["a-"], False, "untainted", []),
        ([A], ["c:NoExecute", "a-"], False, "modified", ["c"]),
        ([A], ["a=x:NoSchedule"], True, "modified", ["a"]),
    ],
)
def test_operations(
    current: list[dict[str, str]], changes: list[str], overwrite: bool, operation: str, keys: list[str]
) -> None:
    added, removed = parse_taint_changes(changes)
    result, taints = change_taints(current, added, removed, overwrite=overwrite, node="n")
    assert (result, [taint["key"] for taint in taints]) == (operation, keys)


def test_conflicting_taint_changes_are_rejected() -> None:
    with pytest.raises(CliError, match=r"node n already has a taint\(s\) with same effect"):
        change_taints([A], [A], [], overwrite=False, node="n")
    with pytest.raises(CliError, match='taint "z:NoExecute" not found'):
        change_taints([A], [], [{"key": "z", "effect": "NoExecute"}], overwrite=False, node="n")
    with pytest.raises(CliError, match="can not both modify and remove"):
        check_conflicts([A], [{"key": "a"}])
