"""What a pod's state says."""

from typing import Any

import pytest

from sampan.controllers.ownership import pod_facts
from tests.controllers.ownership.objects import NOW, pod

MARKED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("phase", "is_marked", "is_active", "is_terminating"),
    [
        ("Pending", False, True, False),
        ("Running", False, True, False),
        ("Running", True, False, True),
        ("Succeeded", False, False, False),
        ("Failed", True, False, False),
    ],
)
def test_active_and_terminating(phase: str, is_marked: bool, is_active: bool, is_terminating: bool) -> None:
    made = pod("a", phase=phase, **(MARKED if is_marked else {}))
    assert (pod_facts.is_active(made), pod_facts.is_terminating(made)) == (is_active, is_terminating)


@pytest.mark.parametrize(
    ("ready_for_s", "least_s", "is_available", "in_s"),
    [
        (None, 0, False, None),
        (0, 0, True, None),
        (None, 5, False, None),
        (4, 5, False, 1.0),
        (5, 5, True, None),
        (9, 5, True, None),
    ],
)
def test_available(ready_for_s: float | None, least_s: int, is_available: bool, in_s: float | None) -> None:
    made = pod("a", ready_for_s=ready_for_s)
    assert pod_facts.is_available(made, least_s, NOW) is is_available
    assert pod_facts.available_in_s(made, least_s, NOW) == in_s
