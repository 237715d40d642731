"""Admission of pods by their node (`pkg/kubelet/lifecycle/predicate.go`), and preemption for critical pods
(`pkg/kubelet/preemption`).

The checks and the choice of the pods to preempt are pure; `PodAdmitter` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sampan.api import names
from sampan.api.semantics.node_selectors import RequiredNodeAffinity
from sampan.api.semantics.pod_references import CONFIG_SOURCE, is_mirror_pod
from sampan.api.semantics.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, effective_requests, qos_class
from sampan.api.semantics.taints import NO_EXECUTE, find_untolerated_taints
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values.quantity import parse
from sampan.host.clock import Clock
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_lifecycle import PodLifecycle
from sampan.kubelet.pod_status import PodFailure, rejected_status
from sampan.kubelet.records import Amounts, PodRecord, PodSyncState, Records
from sampan.kubelet.status_manager import StatusManager
from sampan.machinery.events import WARNING

_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
NODE_AFFINITY, TAINT_TOLERATION, NODE_PORTS = "NodeAffinity", "TaintToleration", "NodePorts"
PODS, _OUT_OF_PREFIX = "pods", "OutOf"
OS_LABEL, OS = "kubernetes.io/os", "linux"
_NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_NO_TOLERATION = "node(s) had taints that the pod didn't tolerate"
_NO_PORTS = "node(s) didn't have free ports for the requested pod ports"


def amounts_of(pod: Pod) -> Amounts:
    """Return the effective resource requests of the pod."""
    return {name: _amount(name, quantity) for name, quantity in effective_requests(pod.spec).items()}


def ports_of(pod: Pod) -> frozenset[tuple[str, str, int]]:
    """Return the host ports of the pod as (address, protocol, port)."""
    ports = [port for container in pod.spec.containers or () for port in container.ports if port.hostPort]
    return frozenset((port.hostIP or "0.0.0.0", port.protocol or "TCP", port.hostPort) for port in ports)


def allocatable_of(node: Node) -> Amounts:
    return {name: _amount(name, parse(text)) for name, text in node.status.allocatable.items()}


def _amount(name: str, quantity: object) -> int:
    amount: int = quantity.milli_value() if name == "cpu" else quantity.value()  # type: ignore[attr-defined]
    return amount


def admit(
    pod: Pod,
    node: Node,
    requests: Mapping[str, int],
    used: Mapping[str, int],
    pods: int,
    ports: Iterable[tuple[str, str, int]] = (),
) -> PodFailure | None:
    """Return why the node rejects the pod, or None if it admits it. `used`, `pods` and `ports` are the requests, the
    number and the host ports of the node's other pods.
    """
    return (
        _os_failure(pod)
        or _resource_failure(node, requests, used, pods)
        or (None if RequiredNodeAffinity(pod.spec).matches(node) else _predicate_failure(NODE_AFFINITY, _NO_AFFINITY))
        or (_predicate_failure(NODE_PORTS, _NO_PORTS) if _have_conflict(ports_of(pod), ports) else None)
        or (None if _tolerates(pod, node) else _predicate_failure(TAINT_TOLERATION, _NO_TOLERATION))
    )


def _os_failure(pod: Pod) -> PodFailure | None:
    if pod.metadata.labels.get(OS_LABEL, OS) != OS:
        text = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        return PodFailure(reason="PodOSSelectorNodeLabelDoesNotMatch", message=text)
    if pod.spec.os is not None and pod.spec.os.name != OS:
        return PodFailure(
            reason="PodOSNotSupported", message="Failed to admit pod as the OS field doesn't match node OS"
        )
    return None


def _predicate_failure(predicate: str, why: str) -> PodFailure:
    return PodFailure(reason=predicate, message=f"Predicate {predicate} failed: {why}")


def _resource_failure(node: Node, requests: Mapping[str, int], used: Mapping[str, int], pods: int) -> PodFailure | None:
    missing, has = compute_shortfalls(node, requests, used, pods), allocatable_of(node)
    for name in missing:
        used_amount, requested = (pods, 1) if name == PODS else (used.get(name, 0), requests[name])
        return _shortage_failure(name, requested, used_amount, has.get(name, 0))
    return None


def compute_shortfalls(node: Node, requests: Mapping[str, int], used: Mapping[str, int], pods: int) -> Amounts:
    """Return how much of each resource the node lacks in order to take a pod with the requests `requests`."""
    has = allocatable_of(node)
    shortfalls = {PODS: pods + 1 - has.get(PODS, 0)}
    for name in (*_STANDARD_RESOURCES, *(name for name in requests if name not in _STANDARD_RESOURCES)):
        requested = requests.get(name, 0)
        if requested and (name in has or not names.is_extended_resource(name)):
            shortfalls[name] = used.get(name, 0) + requested - has.get(name, 0)
    return {name: amount for name, amount in shortfalls.items() if amount > 0}


def is_lack_of_resources(failure: PodFailure) -> bool:
    return failure.reason.startswith(_OUT_OF_PREFIX)


def _shortage_failure(name: str, requested: int, used: int, has: int) -> PodFailure:
    text = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {has}"
    return PodFailure(reason=f"{_OUT_OF_PREFIX}{name}", message=text)


def _have_conflict(ports: Iterable[tuple[str, str, int]], used_ports: Iterable[tuple[str, str, int]]) -> bool:
    addresses: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used_ports:
        addresses.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in ports:
        others = addresses.get((protocol, port))
        if others is not None and (address == "0.0.0.0" or address in others or "0.0.0.0" in others):
            return True
    return False


def _tolerates(pod: Pod, node: Node) -> bool:
    """Whether the pod tolerates the node's NoExecute taints. Other effects concern only scheduling."""
    return not find_untolerated_taints(node.spec.taints, pod.spec.tolerations, (NO_EXECUTE,))


PREEMPTED = PodFailure(
    reason="Preempting",
    message="Preempted in order to admit critical pod",
    disruption="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_TIE_BREAKERS = ("memory", "cpu", "ephemeral-storage")


class PodAdmitter:
    def __init__(
        self, *, lifecycle: PodLifecycle, records: Records, statuses: StatusManager, events: PodEvents, clock: Clock
    ) -> None:
        self._lifecycle, self._records, self._statuses = lifecycle, records, statuses
        self._events, self._clock = events, clock

    def admit(self, record: PodRecord) -> list[PodRecord] | None:
        """Admit or reject the pod. Return the pods preempted for it, whose termination the caller must dispatch, or
        None if it was rejected. A pod that already has container statuses was admitted before and is not checked again.
        """
        requests, preempted = amounts_of(record.pod), list[PodRecord]()
        if not record.pod.status.containerStatuses:
            if (failure := self._failure(record, requests)) is not None:
                failure, preempted = self._preempt(record, requests, failure)
            if failure is not None:
                self.reject(record, failure)
                return None
        record.move_to(PodSyncState.ADMITTED)
        record.count(requests)
        return preempted

    def reject(self, record: PodRecord, failure: PodFailure) -> None:
        self._events.record_pod_event(record.node, record.pod, WARNING, failure.reason, failure.message)
        record.move_to(PodSyncState.TERMINATED)
        self._statuses.set_pod_status(record, rejected_status(record.pod, failure, self._clock.now()))
        self._statuses.finish(record)

    def _failure(self, record: PodRecord, requests: Amounts) -> PodFailure | None:
        node = record.node
        if (failure := self._lifecycle.admission_failure(record.pod)) is not None:
            return failure
        ports = frozenset[tuple[str, str, int]]()
        if ports_of(record.pod):
            ports = frozenset().union(*(ports_of(pod) for pod in self._list_node_pods(record)))
        return admit(record.pod, node.api_node, requests, node.used, len(node.pods), ports)

    def _preempt(
        self, record: PodRecord, requests: Amounts, failure: PodFailure
    ) -> tuple[PodFailure | None, list[PodRecord]]:
        """Preempt other pods if a critical pod was rejected for lack of resources. Return the remaining rejection, if
        any, and the preempted pods.
        """
        node = record.node
        if not is_critical(record.pod) or not is_lack_of_resources(failure):
            return failure, []
        missing = compute_shortfalls(node.api_node, requests, node.used, len(node.pods))
        pods = select_victims(record.pod, self._list_node_pods(record), missing)
        if pods is None:
            return no_victims_failure(missing), []
        preempted = [self._records[pod.metadata.uid] for pod in pods]
        for victim in preempted:
            self._events.record_pod_event(node, victim.pod, WARNING, PREEMPTED.reason, PREEMPTED.message)
            victim.spec.failure = PREEMPTED
            victim.free()
        return None, preempted

    def _list_node_pods(self, record: PodRecord) -> list[Pod]:
        return [self._records[uid].pod for uid in sorted(record.node.pods) if uid in self._records]


def select_victims(pod: Pod, others: Sequence[Pod], lacking: Mapping[str, int]) -> list[Pod] | None:
    """Return the pods to preempt for a critical pod: as few as possible, of the lowest QoS class first. Return None if
    preempting every pod that it may preempt would not suffice.
    """
    classes = {name: list[Pod]() for name in (BEST_EFFORT, BURSTABLE, GUARANTEED)}
    for other in others:
        if _may_preempt(pod, other):
            classes[qos_class(other.spec)].append(other)
    best_effort, burstable, guaranteed = classes.values()
    if _compute_remaining_shortfalls(lacking, [*best_effort, *burstable, *guaranteed]):
        return None
    last = _closest_pods(guaranteed, _compute_remaining_shortfalls(lacking, [*best_effort, *burstable]))
    middle = _closest_pods(burstable, _compute_remaining_shortfalls(lacking, [*best_effort, *last]))
    first = _closest_pods(best_effort, _compute_remaining_shortfalls(lacking, [*middle, *last]))
    return [*first, *middle, *last]


def no_victims_failure(lacking: Mapping[str, int]) -> PodFailure:
    """Return the rejection of a critical pod for which preemption cannot free enough resources."""
    amounts = "".join(f"(res: {name}, q: {amount}), " for name, amount in lacking.items())
    why = f"no set of running pods found to reclaim resources: [{amounts}]"
    text = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of"
    return PodFailure(reason="UnexpectedAdmissionError", message=f"{text} pods to preempt: {why}")


def _may_preempt(pod: Pod, other: Pod) -> bool:
    if is_critical(pod) and not is_critical(other):
        return True
    ours, theirs = pod.spec.priority, other.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def _compute_remaining_shortfalls(lacking: Mapping[str, int], without: Sequence[Pod]) -> Amounts:
    """Return the shortfalls that remain if the pods `without` are preempted."""
    freed = [_requests_of(item) for item in without]
    remaining = {name: amount - sum(item.get(name, 0) for item in freed) for name, amount in lacking.items()}
    return {name: amount for name, amount in remaining.items() if amount > 0}


def _closest_pods(pods: Sequence[Pod], lacking: Mapping[str, int]) -> list[Pod]:
    """Return pods that cover the shortfalls. They are picked one after another: the pod whose requests come closest to
    the remaining shortfalls, and the smaller one of two equally close pods.
    """
    candidates, remaining, chosen = list(pods), dict(lacking), list[Pod]()
    while remaining and candidates:
        best = min(candidates, key=lambda pod: (_distance(pod, remaining), _size(pod)))
        candidates.remove(best)
        chosen.append(best)
        remaining = _compute_remaining_shortfalls(remaining, [best])
    return chosen


def _distance(pod: Pod, lacking: Mapping[str, int]) -> float:
    requests = _requests_of(pod)
    return sum((max(amount - requests.get(name, 0), 0) / amount) ** 2 for name, amount in lacking.items())


def _size(pod: Pod) -> tuple[int, ...]:
    requests = _requests_of(pod)
    return tuple(requests.get(name, 0) for name in _TIE_BREAKERS)


def _requests_of(pod: Pod) -> Amounts:
    return {**amounts_of(pod), "pods": 1}


# -- source and criticality of a pod (`pkg/kubelet/types`) ------------------------------------------------------------

API = "api"


def source_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(CONFIG_SOURCE, API)


def with_api_source(pod: Pod) -> Pod:
    """Return the pod with `api` as its source. The annotation in the API object is not trusted: only the kubelet
    decides which pods are static.
    """
    if source_of(pod) == API:
        return pod
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, CONFIG_SOURCE: API})
    return msgspec.structs.replace(pod, metadata=meta)


CRITICAL = 2_000_000_000
"""The priority at and above which a pod is critical: it is never evicted and may preempt other pods."""


def is_critical(pod: Pod) -> bool:
    is_own = source_of(pod) != API or is_mirror_pod(pod)
    return is_own or (pod.spec.priority or 0) >= CRITICAL
