"""A pod as the scheduler sees it, and the table that creates these objects so that pods share their equal parts.

A pod that is being resized in place occupies the maximum of the requested, the allocated and the actual resources. For
an infeasible resize it is the maximum of the allocated and the actual resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from sampan.api.values import quantity
from sampan.scheduler.cache.label_groups import AffinityTerm, AffinityTermTable, LabelGroup
from sampan.scheduler.cache.pod_signature import PodSignature, PodSignatureTable

_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"
_Requests = Mapping[str, str]


def spec_with_occupied_resources(pod: Pod) -> PodSpec:
    """Return the spec with the occupied resources as requests; the pod's own spec if they are the same."""
    containers = _with_occupied_resources(pod, pod.spec.containers or (), pod.status.containerStatuses)
    sidecars = _with_occupied_resources(
        pod, pod.spec.initContainers, pod.status.initContainerStatuses, only_sidecars=True
    )
    pod_resources = _occupied_pod_resources(pod)
    if containers is None and sidecars is None and pod_resources is None:
        return pod.spec
    return msgspec.structs.replace(
        pod.spec,
        containers=containers if containers is not None else pod.spec.containers,
        initContainers=sidecars if sidecars is not None else pod.spec.initContainers,
        resources=pod_resources if pod_resources is not None else pod.spec.resources,
    )


def _occupied_pod_resources(pod: Pod) -> ResourceRequirements | None:
    """Return the pod-level resources as occupied, or None if nothing differs."""
    desired, actual = pod.spec.resources, pod.status.resources
    if desired is None or actual is None or not desired.requests:
        return None
    maximum = _compute_occupied_requests(pod, desired.requests, actual.requests, pod.status.allocatedResources)
    occupied = {name: maximum.get(name, "0") for name in desired.requests}
    return None if occupied == desired.requests else msgspec.structs.replace(desired, requests=occupied)


def _with_occupied_resources(
    pod: Pod, containers: Sequence[Container], statuses: Sequence[ContainerStatus], *, only_sidecars: bool = False
) -> list[Container] | None:
    """Return the containers with their resources as occupied, or None if nothing differs."""
    by_name = {status.name: status for status in statuses if status.resources is not None}
    if not by_name:
        return None
    updated, differs = [], False
    for container in containers:
        status = by_name.get(container.name)
        if status is None or (only_sidecars and container.restartPolicy != "Always"):
            updated.append(container)
            continue
        requests = container.resources.requests
        actual = status.resources.requests if status.resources is not None else {}
        occupied = _compute_occupied_requests(pod, requests, actual, status.allocatedResources)
        if occupied != requests:
            differs = True
            resources = msgspec.structs.replace(container.resources, requests=occupied)
            container = msgspec.structs.replace(container, resources=resources)
        updated.append(container)
    return updated if differs else None


def _compute_occupied_requests(pod: Pod, requested: _Requests, actual: _Requests, allocated: _Requests) -> _Requests:
    if actual == requested and allocated in ({}, requested):
        return requested
    return _maxima([actual, allocated] if _is_infeasible(pod) else [requested, actual, allocated])


def _is_infeasible(pod: Pod) -> bool:
    pending = find_condition(pod.status.conditions, _PENDING)
    return pending is not None and pending.reason == _INFEASIBLE


def _maxima(lists: Sequence[_Requests]) -> dict[str, str]:
    maxima: dict[str, str] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in maxima or quantity.parse(amount) > quantity.parse(maxima[name]):
                maxima[name] = amount
    return maxima


DEFAULT_SCHEDULER = "default-scheduler"


class PodInfo:
    __slots__ = ("group", "pod", "priority", "signature", "terms", "uid")

    def __init__(self, pod: Pod, signature: PodSignature, group: LabelGroup, terms: tuple[AffinityTerm, ...]) -> None:
        self.pod, self.signature, self.group, self.terms = pod, signature, group, terms
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def full_name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    def counts_as(self, other: PodInfo) -> bool:
        """Whether both pods have the same effect on a node's resources, counts and priorities."""
        return self.signature is other.signature and self.group is other.group and self.priority == other.priority


class PodInfoTable:
    def __init__(self) -> None:
        self.signature = PodSignatureTable()
        self.terms = AffinityTermTable()
        self.groups: WeakValueDictionary[object, LabelGroup] = WeakValueDictionary()

    def info(self, pod: Pod) -> PodInfo:
        signature, namespace = self.signature.get_signature(spec_with_occupied_resources(pod)), pod.metadata.namespace
        return PodInfo(pod, signature, self._group(pod), self._terms(signature, namespace))

    def refresh_info(self, info: PodInfo, pod: Pod) -> PodInfo:
        """Return the info for a newer version of the pod; this is cheap for changes of the status alone."""
        old = info.pod.metadata
        new = pod.metadata
        if (
            new.generation == old.generation
            and new.labels == old.labels
            and (new.deletionTimestamp is None) == (old.deletionTimestamp is None)
            and spec_with_occupied_resources(pod) is pod.spec
            and spec_with_occupied_resources(info.pod) is info.pod.spec
        ):
            return PodInfo(pod, info.signature, info.group, info.terms)
        return self.info(pod)

    def _group(self, pod: Pod) -> LabelGroup:
        meta = pod.metadata
        is_terminating = meta.deletionTimestamp is not None
        key = (meta.namespace, is_terminating, *sorted(meta.labels.items()))
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = LabelGroup(meta.namespace, meta.labels, is_terminating)
        return group

    def _terms(self, signature: PodSignature, namespace: str) -> tuple[AffinityTerm, ...]:
        if signature.spec.affinity is None:
            return ()
        by_namespace: dict[str, tuple[AffinityTerm, ...]] = signature.parse_once("terms", lambda spec: {})
        terms = by_namespace.get(namespace)
        if terms is None:
            terms = by_namespace[namespace] = self.terms.list_terms(signature.spec, namespace)
        return terms
