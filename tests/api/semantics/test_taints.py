"""Tolerations against taints."""

import msgspec
import pytest

from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, find_untolerated_taints, tolerates
from sampan.api.types.core_v1 import Taint, Toleration
from sampan.api.types.resource_v1 import DeviceTaint, DeviceToleration

TAINT = {"key": "dedicated", "value": "gpu", "effect": NO_SCHEDULE}


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"key": "dedicated", "value": "gpu", "effect": NO_SCHEDULE}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "gpu"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "cpu"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": NO_EXECUTE}, False),
        ({"value": "gpu"}, True),
        ({"key": "dedicated", "operator": "Lt", "value": "gpu"}, False),
        ({"key": "dedicated", "operator": "Gt", "value": "gpu"}, False),
        ({"key": "dedicated", "operator": "Unknown", "value": "gpu"}, False),
    ],
)
def test_tolerates(toleration: dict[str, str], is_tolerated: bool) -> None:
    assert tolerates(msgspec.convert(toleration, Toleration), Taint(**TAINT)) is is_tolerated
    assert tolerates(msgspec.convert(toleration, DeviceToleration), DeviceTaint(**TAINT)) is is_tolerated


def test_untolerated_taints() -> None:
    taints = [
        Taint(key="a", effect=NO_SCHEDULE),
        Taint(key="b", effect=NO_EXECUTE),
        Taint(key="c", effect=PREFER_NO_SCHEDULE),
    ]
    tolerations = [Toleration(key="b", operator="Exists")]
    assert find_untolerated_taints(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE)) == [taints[0]]
    assert find_untolerated_taints(taints, tolerations, (PREFER_NO_SCHEDULE,)) == [taints[2]]
