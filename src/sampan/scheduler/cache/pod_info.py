"""A pod as the scheduler sees it, and the table that creates these objects so that pods share their equal parts.

A pod that is being resized in place occupies the maximum of its requested, its allocated and its actual resources, each
summed up over its containers. For an infeasible resize it is the maximum of the allocated and the actual resources.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import msgspec

from sampan.api.names import is_pod_level_resource
from sampan.api.semantics.conditions import find_condition
from sampan.api.semantics.pod_resources import Amounts, aggregate_containers, pod_requests, raise_to, sum_amounts
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from sampan.api.values.quantity import parse
from sampan.scheduler.cache.label_groups import AffinityTerm, AffinityTermTable, LabelGroup
from sampan.scheduler.cache.pod_signature import PodSignature, PodSignatureTable

_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"
_NOTHING = parse("0")
_Requests = dict[str, str]


def spec_with_occupied_resources(pod: Pod) -> PodSpec:
    """Return the spec with the occupied resources as pod-level requests; the pod's own spec if they are the same."""
    if not _reports_other_resources(pod):
        return pod.spec
    own = pod.spec.resources or ResourceRequirements()
    requests = _occupied_container_requests(pod) | _occupied_pod_level_requests(pod)
    if requests == own.requests:
        return pod.spec
    return msgspec.structs.replace(pod.spec, resources=msgspec.structs.replace(own, requests=requests))


def _reports_other_resources(pod: Pod) -> bool:
    """Tell whether the status of the pod or of a container has resources that are not literally the requested ones."""
    spec, status = pod.spec, pod.status
    if status.resources is not None and spec.resources is not None:
        requests = spec.resources.requests
        if status.resources.requests != requests or status.allocatedResources not in ({}, requests):
            return True
    statuses = [*status.containerStatuses, *status.initContainerStatuses]
    if all(container.resources is None and not container.allocatedResources for container in statuses):
        return False
    requested = {container.name: container.resources.requests for container in init_and_main_containers(spec)}
    for container in statuses:
        requests = requested.get(container.name, {})
        actual = requests if container.resources is None else container.resources.requests
        if actual not in ({}, requests) or container.allocatedResources not in ({}, requests):
            return True
    return False


def _occupied_container_requests(pod: Pod) -> _Requests:
    """Return the resources of which the containers together occupy another amount than they request.

    The requested, allocated and actual amounts are each summed up over the containers, and the maximum of the sums
    counts. A status of the pod itself has these sums already.
    """
    status = pod.status
    by_name = {container.name: container for container in (*status.containerStatuses, *status.initContainerStatuses)}
    is_infeasible = _is_infeasible(pod)

    def pick_allocated(container: Container) -> _Requests:
        reported = by_name.get(container.name)
        if reported is not None and reported.allocatedResources:
            return reported.allocatedResources
        return {} if is_infeasible else container.resources.requests

    def pick_actual(container: Container) -> _Requests:
        reported = by_name.get(container.name)
        if reported is not None and reported.resources is not None and reported.resources.requests:
            return reported.resources.requests
        return pick_allocated(container)

    requested = pod_requests(pod.spec)
    if status.allocatedResources and status.resources is not None and status.resources.requests:
        sums = [sum_amounts([status.allocatedResources]), sum_amounts([status.resources.requests])]
    else:
        sums = [aggregate_containers(pod.spec, pick_allocated), aggregate_containers(pod.spec, pick_actual)]
    occupied: Amounts = {} if is_infeasible else dict(requested)
    for amounts in sums:
        raise_to(occupied, amounts)
    names = requested.keys() | occupied.keys()
    return {
        name: str(occupied.get(name, _NOTHING))
        for name in names
        if is_pod_level_resource(name) and occupied.get(name) != requested.get(name)
    }


def _occupied_pod_level_requests(pod: Pod) -> _Requests:
    """Return the pod-level requests that count while the pod is being resized."""
    resources, status = pod.spec.resources, pod.status
    if resources is None or not resources.requests or status.resources is None:
        return {} if resources is None else resources.requests
    occupied: Amounts = {} if _is_infeasible(pod) else sum_amounts([resources.requests])
    for amounts in (status.resources.requests, status.allocatedResources):
        raise_to(occupied, sum_amounts([amounts]))
    return {name: str(amount) for name, amount in occupied.items() if is_pod_level_resource(name)}


def _is_infeasible(pod: Pod) -> bool:
    pending = find_condition(pod.status.conditions, _PENDING)
    return pending is not None and pending.reason == _INFEASIBLE


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
