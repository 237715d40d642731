"""The order in which a controller deletes pods when it scales down."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership.deletion_order import (
    DELETION_COST,
    deletion_cost,
    deletion_order,
    plain_order,
    pods_to_delete,
)
from tests.controllers.ownership.objects import NOW, pod


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def pod_with_cost(name: str, cost: str) -> Pod:
    return pod(name, node="n", ready_for_s=60, annotations={DELETION_COST: cost})


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param([pod("a", phase="Pending"), pod("b", node="n", phase="Pending")], id="without a node"),
        pytest.param([pod("a", node="n", phase="Pending"), pod("b", node="n", phase="Unknown")], id="pending"),
        pytest.param([pod("a", node="n", phase="Unknown"), pod("b", node="n")], id="unknown"),
        pytest.param([pod("a", node="n"), pod("b", node="n", ready_for_s=9)], id="not ready"),
        pytest.param(
            [pod_with_cost("a", "-5"), pod_with_cost("b", "0"), pod_with_cost("c", "3")], id="lower deletion cost"
        ),
        pytest.param(
            [pod("a", node="n", ready_for_s=9), pod("b", node="n", ready_for_s=999)], id="ready for a shorter time"
        ),
        pytest.param([pod("b", node="n", restarts=3), pod("a", node="n")], id="restarted more often"),
        pytest.param([pod("b", node="n", age_s=9), pod("a", node="n", age_s=999)], id="younger"),
        pytest.param([pod("b", node="n"), pod("a", node="n", age_s=999)], id="of unknown age"),
        pytest.param([pod("a", node="n", age_s=999), pod("b", node="n", age_s=998)], id="by uid at about equal age"),
    ],
)
def test_deletion_order(expected: list[Pod]) -> None:
    for pods in permutations(expected):
        assert names(deletion_order(pods, now=NOW)) == names(expected)


def test_pods_on_nodes_with_more_related_pods_are_deleted_first() -> None:
    alone, together = pod("a", node="m", ready_for_s=1), pod("b", node="n", ready_for_s=99999)
    assert names(deletion_order([alone, together], now=NOW)) == ["a", "b"]
    neighbor = pod("c", node="n", ready_for_s=1)
    assert names(deletion_order([alone, together], related=[alone, together, neighbor], now=NOW)) == ["b", "a"]
    ended = pod("c", node="n", phase="Succeeded")
    assert names(deletion_order([alone, together], related=[alone, together, ended], now=NOW)) == ["a", "b"]


def test_plain_order_ignores_deletion_cost_and_compares_exact_ages() -> None:
    assert names(plain_order([pod("a", node="n", age_s=999), pod("b", node="n", age_s=998)])) == ["b", "a"]
    older = pod("a", node="n", ready_for_s=9, annotations={DELETION_COST: "-1"})
    assert names(plain_order([older, pod("b", node="n", ready_for_s=8)])) == ["b", "a"]


def test_pods_to_delete_are_not_sorted_when_all_are_deleted() -> None:
    pods = [pod("b", node="n"), pod("a")]
    assert names(pods_to_delete(pods, 2, now=NOW)) == ["b", "a"]
    assert names(pods_to_delete(pods, 1, now=NOW)) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("7", 7),
        ("-7", -7),
        ("+7", 0),
        ("07", 0),
        ("0", 0),
        ("x", 0),
        ("2147483648", 0),
        ("-2147483648", -(2**31)),
    ],
)
def test_deletion_cost_annotation(text: str, expected: int) -> None:
    assert deletion_cost(pod_with_cost("a", text)) == expected


@given(st.lists(st.tuples(st.sampled_from(["", "n", "m"]), st.integers(0, 3), st.integers(0, 5000)), max_size=8))
def test_deletion_order_is_a_permutation(states: list[tuple[str, int, int]]) -> None:
    pods = [pod(f"p{at}", node=node, restarts=restarts, age_s=age) for at, (node, restarts, age) in enumerate(states)]
    assert sorted(names(deletion_order(pods, related=pods, now=NOW))) == sorted(names(pods))
