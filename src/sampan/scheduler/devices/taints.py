"""Whether a request tolerates the taints of a device. Pure."""

from collections.abc import Sequence

from sampan.api.types.resource_v1 import DeviceTaint, DeviceToleration

_KEEPING_OUT = ("NoSchedule", "NoExecute")


def is_tolerated(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _KEEPING_OUT
    )


def _tolerates(one: DeviceToleration, taint: DeviceTaint) -> bool:
    if (one.effect and one.effect != taint.effect) or (one.key and one.key != taint.key):
        return False
    return one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value)
