"""Taints and tolerations, of nodes and of devices (`k8s.io/component-helpers/scheduling/corev1/helpers.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"


class AnyTaint(Protocol):
    """A taint of a node or of a device."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class AnyToleration(AnyTaint, Protocol):
    """A toleration of a pod, or of a device request."""

    @property
    def operator(self) -> str: ...


def tolerates(toleration: AnyToleration, taint: AnyTaint) -> bool:
    """Whether the toleration matches the taint. An empty effect matches every effect, an empty key every key."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return _matches_value(toleration.operator, toleration.value, taint.value)


def _matches_value(operator: str, toleration_value: str, taint_value: str) -> bool:
    """Whether a toleration with this operator and value matches the value of a taint.

    Kubernetes also defines `Lt` and `Gt`, behind a feature gate (TaintTolerationComparisonOperators) that is off:
    validation rejects tolerations that use them, and a toleration with an unknown operator matches nothing.
    """
    match operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration_value == taint_value
    return False


def is_tolerated(taint: AnyTaint, tolerations: Iterable[AnyToleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def find_untolerated_taints(
    taints: Iterable[AnyTaint], tolerations: Sequence[AnyToleration], effects: Sequence[str]
) -> list[AnyTaint]:
    """Return the taints with one of these effects that no toleration matches."""
    return [taint for taint in taints if taint.effect in effects and not is_tolerated(taint, tolerations)]
