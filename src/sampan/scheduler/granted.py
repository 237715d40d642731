"""The resources that a pod occupies while it is being resized in place.

That is the maximum of the requested, the allocated and the actual resources; for an infeasible resize, the maximum of
the latter two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sampan.api import quantity
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements

_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"
_Requests = Mapping[str, str]


def spec_as_granted(pod: Pod) -> PodSpec:
    """Return the spec with the occupied resources as requests; the pod's own spec if they are the same."""
    containers = _as_granted(pod, pod.spec.containers or (), pod.status.containerStatuses)
    sidecars = _as_granted(pod, pod.spec.initContainers, pod.status.initContainerStatuses, only_sidecars=True)
    own = _own_as_granted(pod)
    if containers is None and sidecars is None and own is None:
        return pod.spec
    return msgspec.structs.replace(
        pod.spec,
        containers=containers if containers is not None else pod.spec.containers,
        initContainers=sidecars if sidecars is not None else pod.spec.initContainers,
        resources=own if own is not None else pod.spec.resources,
    )


def _own_as_granted(pod: Pod) -> ResourceRequirements | None:
    """Return the pod-level resources as occupied, or None if nothing differs."""
    asked, told = pod.spec.resources, pod.status.resources
    if asked is None or told is None or not asked.requests:
        return None
    most = _taken(pod, asked.requests, told.requests, pod.status.allocatedResources)
    taken = {name: most.get(name, "0") for name in asked.requests}
    return None if taken == asked.requests else msgspec.structs.replace(asked, requests=taken)


def _as_granted(
    pod: Pod, containers: Sequence[Container], statuses: Sequence[ContainerStatus], *, only_sidecars: bool = False
) -> list[Container] | None:
    """Return the containers with their resources as occupied, or None if nothing differs."""
    told = {status.name: status for status in statuses if status.resources is not None}
    if not told:
        return None
    found, differs = [], False
    for container in containers:
        status = told.get(container.name)
        if status is None or (only_sidecars and container.restartPolicy != "Always"):
            found.append(container)
            continue
        requests = container.resources.requests
        actual = status.resources.requests if status.resources is not None else {}
        taken = _taken(pod, requests, actual, status.allocatedResources)
        if taken != requests:
            differs = True
            resources = msgspec.structs.replace(container.resources, requests=taken)
            container = msgspec.structs.replace(container, resources=resources)
        found.append(container)
    return found if differs else None


def _taken(pod: Pod, wanted: _Requests, actual: _Requests, granted: _Requests) -> _Requests:
    if actual == wanted and granted in ({}, wanted):
        return wanted
    return _most([actual, granted] if _is_infeasible(pod) else [wanted, actual, granted])


def _is_infeasible(pod: Pod) -> bool:
    pending = next((one for one in pod.status.conditions if one.type == _PENDING), None)
    return pending is not None and pending.reason == _INFEASIBLE


def _most(lists: Sequence[_Requests]) -> dict[str, str]:
    found: dict[str, str] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in found or quantity.parse(amount) > quantity.parse(found[name]):
                found[name] = amount
    return found


__all__ = ["spec_as_granted"]
