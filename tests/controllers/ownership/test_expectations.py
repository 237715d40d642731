"""Expectations keep a controller from acting on a stale cache."""

from typing import Any

import pytest

from sampan.controllers.ownership.expectations import EXPIRY_S, Expectations
from sampan.host.clock import VirtualClock
from tests.controllers.ownership.objects import owner, pod

DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_owner_without_expectations_is_satisfied() -> None:
    expectations = Expectations(clock=VirtualClock())
    assert expectations.is_satisfied("o")
    assert expectations.expires_in("o") is None


def test_creations_are_counted_and_deletions_tracked_by_uid() -> None:
    expectations = Expectations(clock=VirtualClock())
    expectations.expect("o", creations=2)
    expectations.lower_creations("o")
    assert not expectations.is_satisfied("o")
    expectations.lower_creations("o")
    assert expectations.is_satisfied("o")

    expectations.expect("o", deletions=["a", "b"])
    expectations.drop_deletion("o", "a")
    expectations.drop_deletion("o", "a")
    assert not expectations.is_satisfied("o")
    expectations.drop_deletion("o", "b")
    assert expectations.is_satisfied("o")


async def test_unfulfilled_expectations_expire() -> None:
    clock = VirtualClock()
    expectations = Expectations(clock=clock)
    expectations.expect("o", creations=1)
    await clock.advance(EXPIRY_S)
    assert not expectations.is_satisfied("o")
    expires_in_s = expectations.expires_in("o")
    assert expires_in_s is not None
    await clock.advance(expires_in_s)
    assert expectations.is_satisfied("o")


@pytest.mark.parametrize(
    ("old", "new", "creations", "deletions"),
    [
        pytest.param(None, pod("a", owned_by="o"), 0, {"uid-a"}, id="created"),
        pytest.param(None, pod("a"), 1, {"uid-a"}, id="orphan created"),
        pytest.param(None, pod("a", owned_by="p"), 1, {"uid-a"}, id="pod of another owner created"),
        pytest.param(pod("a", owned_by="o"), pod("a", owned_by="o"), 1, {"uid-a"}, id="updated"),
        pytest.param(pod("a", owned_by="o"), pod("a", owned_by="o", **DELETED), 1, set(), id="deletion timestamp set"),
        pytest.param(None, pod("a", owned_by="o", **DELETED), 0, set(), id="created with deletion timestamp"),
        pytest.param(pod("a", owned_by="o"), None, 1, set(), id="deleted"),
        pytest.param(pod("b", owned_by="o"), None, 1, {"uid-a"}, id="another pod deleted"),
    ],
)
def test_observed_changes_fulfil_expectations(old: Any, new: Any, creations: int, deletions: set[str]) -> None:
    expectations = Expectations(clock=VirtualClock())
    expectations.expect("o", creations=1, deletions=["uid-a"])
    expectations.observe(old, new)
    for left in deletions:
        assert not expectations.is_satisfied("o")
        expectations.drop_deletion("o", left)
    assert expectations.is_satisfied("o") is (creations == 0)


def test_expectations_of_a_deleted_owner_are_dropped() -> None:
    expectations = Expectations(clock=VirtualClock())
    expectations.expect("owner-uid", creations=1)
    expectations._observe_owner(owner(), owner())
    assert not expectations.is_satisfied("owner-uid")
    expectations._observe_owner(owner(), None)
    assert expectations.is_satisfied("owner-uid")
