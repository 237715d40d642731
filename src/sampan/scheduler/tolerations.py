"""Taints and tolerations: which sets of taints the tolerations of a pod cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sampan.api.types.core_v1 import Toleration
from sampan.scheduler.arrays import Flags, Ints
from sampan.scheduler.node_extras import TaintKey

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"
UNSCHEDULABLE_TAINT: TaintKey = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(toleration: Toleration, taint: TaintKey) -> bool:
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == value
    return toleration.operator == "Exists"


def is_tolerated(taint: TaintKey, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def keeps_off(taints: Iterable[TaintKey], tolerations: Sequence[Toleration]) -> bool:
    """Whether an untolerated NoSchedule or NoExecute taint is among the taints."""
    return any(taint[2] in (NO_SCHEDULE, NO_EXECUTE) and not is_tolerated(taint, tolerations) for taint in taints)


def disliked(taints: Iterable[TaintKey], tolerations: Sequence[Toleration]) -> int:
    """Return the number of untolerated PreferNoSchedule taints."""
    concerned = [toleration for toleration in tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)]
    return sum(taint[2] == PREFER_NO_SCHEDULE and not is_tolerated(taint, concerned) for taint in taints)


def kept_off(sets: Sequence[tuple[TaintKey, ...]], tolerations: Sequence[Toleration]) -> Flags:
    """Return the result of `keeps_off` for every set of taints."""
    return np.array([keeps_off(taints, tolerations) for taints in sets], dtype=np.bool_)


def dislikes(sets: Sequence[tuple[TaintKey, ...]], tolerations: Sequence[Toleration]) -> Ints:
    return np.array([disliked(taints, tolerations) for taints in sets], dtype=np.int64)
