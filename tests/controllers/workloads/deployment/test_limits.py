"""How many pods there may be too many or too few."""

import pytest

from sampan.controllers.workloads.deployment.replicasets import (
    deadline_s,
    max_replicas,
    max_surge,
    max_unavailable,
    revision_history_limit,
)
from tests.controllers.workloads.deployment.objects import deployment


@pytest.mark.parametrize(
    ("replicas", "surge", "missing", "wanted"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (2, "0%", "1%", (0, 1)),
        (1, 0, "1%", (0, 1)),
        (2, "1%", "25%", (1, 0)),
        (4, 2, 3, (2, 3)),
        (4, 0, 9, (0, 4)),
        (0, "25%", "25%", (0, 0)),
        (10, "33%", "33%", (4, 3)),
    ],
)
def test_shares_of_the_size(
    replicas: int, surge: int | str, missing: int | str, desired_replicas: tuple[int, int]
) -> None:
    found = deployment(replicas, surge=surge, missing=missing)
    assert (max_surge(found), max_unavailable(found)) == desired_replicas
    assert max_replicas(found) == replicas + desired_replicas[0]


def test_none_where_all_change_at_once() -> None:
    found = deployment(10, strategy="Recreate")
    assert (max_surge(found), max_unavailable(found)) == (0, 0)


def test_the_largest_number_means_without_limit() -> None:
    found = deployment(deadline=2**31 - 1, revisionHistoryLimit=2**31 - 1)
    assert (deadline_s(found), revision_history_limit(found)) == (None, None)
    assert deadline_s(deployment(deadline=5)) == 5
