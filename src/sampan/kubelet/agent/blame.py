"""Pure computation of the eviction message and the annotations of its event."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.quantity import Format, Quantity, parse
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.pressure import EVICTED, Shortage, total, used
from sampan.kubelet.pod_status import Verdict
from sampan.runtimes.contract import Usage

OFFENDERS, OFFENDERS_USAGE = "offending_containers", "offending_containers_usage"
POD, POD_USAGE = "offending_pod", "offending_pod_usage"
STARVED = "starved_resource"
_ASKED_FOR = ("memory", "ephemeral-storage")


def verdict(pod: Pod, usages: Sequence[Usage], shortage: Shortage) -> Verdict:
    """Return the eviction verdict, which names the containers that exceed their requests if usage figures are
    available.
    """
    resource = shortage.resource
    available = Quantity(shortage.available, format=Format.BINARY_SI if resource in _ASKED_FOR else Format.DECIMAL_SI)
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {_bytes(shortage.threshold)}, available: {available}. "
    annotations: dict[str, str] = {}
    if usages:
        if (whole := _whole(pod, usages, resource)) is not None:
            text += _excess("Pod", pod.metadata.name, *whole, resource)
            annotations |= {POD: pod.metadata.name, POD_USAGE: str(whole[0])}
        over = _over(pod, usages, resource)
        text += "".join(_excess("Container", *row, resource) for row in over)
        annotations[OFFENDERS] = ",".join(name for name, _, _ in over)
        annotations[OFFENDERS_USAGE] = ",".join(str(amount) for _, amount, _ in over)
        annotations[STARVED] = resource
    return Verdict(reason=EVICTED, message=text, disruption=text, annotations=annotations)


def _whole(pod: Pod, usages: Sequence[Usage], resource: str) -> tuple[Quantity, Quantity] | None:
    """Return usage and request of the whole pod, or None without a pod-level memory request."""
    request = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
    if request is None or resource != "memory":
        return None
    return _bytes(total(usages, resource)), parse(request)


def _over(pod: Pod, usages: Sequence[Usage], resource: str) -> list[tuple[str, Quantity, Quantity]]:
    """Return name, usage and request of each container that exceeds its request."""
    if resource not in _ASKED_FOR:
        return []
    containers = init_and_main_containers(pod.spec)
    requests = {container.name: parse(container.resources.requests.get(resource, "0")) for container in containers}
    rows = [
        (container.name, _bytes(used(container, resource)), requests[container.name])
        for container in usages
        if container.name in requests
    ]
    return [row for row in rows if row[2] < row[1]]


def _excess(what: str, name: str, amount: Quantity, asked: Quantity, resource: str) -> str:
    return f"{what} {name} was using {amount}, request is {asked}, has larger consumption of {resource}. "


def _bytes(amount: int) -> Quantity:
    return Quantity(amount, format=Format.BINARY_SI)
