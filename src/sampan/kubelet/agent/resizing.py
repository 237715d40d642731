"""Pure decisions of in-place pod resize."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.api.codec import json
from sampan.api.quantity import parse
from sampan.api.types.core_v1 import Container, Node, Pod, ResourceRequirements
from sampan.kubelet.admission import Amounts, allocatable_of, amounts_of

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"
_RESIZABLE = ("cpu", "memory")

Actuated = Mapping[str, ResourceRequirements]
"""Resources that containers run with, by container name."""


def changed(wanted: ResourceRequirements, present: ResourceRequirements) -> set[str]:
    """Return the names of the resources that differ."""
    return {
        name
        for name in _RESIZABLE
        if _amount(wanted.limits, name) != _amount(present.limits, name)
        or _amount(wanted.requests, name) != _amount(present.requests, name)
    }


def _amount(amounts: Mapping[str, str], name: str) -> int:
    return int(parse(amounts[name]).milli_value()) if name in amounts else 0


def needs_restart(container: Container, names: set[str]) -> bool:
    return any(
        policy.resourceName in names and policy.restartPolicy == "RestartContainer" for policy in container.resizePolicy
    )


def refusal(pod: Pod, node: Node, used_by_others: Mapping[str, int]) -> tuple[str, str] | None:
    """Return why the pod cannot have the requested resources, as reason and message: Infeasible if the node is too
    small, Deferred if other pods use them. Return None if they fit.
    """
    requests, has = amounts_of(pod), allocatable_of(node)
    for name in _RESIZABLE:
        if requests.get(name, 0) > has.get(name, 0):
            text = (
                f"Node didn't have enough capacity: {name}, requested: {requests[name]}, capacity: {has.get(name, 0)}"
            )
            return INFEASIBLE, text
    for name in _RESIZABLE:
        used = used_by_others.get(name, 0)
        if used + requests.get(name, 0) > has.get(name, 0):
            amounts = f"requested: {requests[name]}, used: {used}, capacity: {has.get(name, 0)}"
            return DEFERRED, f"Node didn't have enough resource: {name}, {amounts}"
    return None


def others(used: Amounts, own: Amounts | None) -> Amounts:
    return {name: amount - (own or {}).get(name, 0) for name, amount in used.items()}


def summary(pod: Pod, error: str = "") -> str:
    """Return the pod's resources as JSON for events."""
    value = {
        "initContainers": [_allocation(container) for container in pod.spec.initContainers],
        "containers": [_allocation(container) for container in pod.spec.containers or ()],
        "generation": pod.metadata.generation,
        "error": error,
    }
    return json.encode({key: field for key, field in value.items() if field or key == "generation"}).decode()


def _allocation(container: Container) -> dict[str, object]:
    return {"name": container.name, "resources": json.to_value(container.resources)}
