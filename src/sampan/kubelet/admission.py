"""Pure admission checks of a node for a pod bound to it (`pkg/kubelet/lifecycle/predicate.go`)."""

from collections.abc import Iterable, Mapping

from sampan.api import resource_names
from sampan.api.quantity import parse
from sampan.api.semantics.node_selectors import RequiredNodeAffinity
from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.semantics.taints import NO_EXECUTE, untolerated
from sampan.api.types.core_v1 import Node, Pod
from sampan.kubelet.pod_status import PodFailure

_COUNTED = ("cpu", "memory", "ephemeral-storage")
NODE_AFFINITY, TAINT_TOLERATION, NODE_PORTS = "NodeAffinity", "TaintToleration", "NodePorts"
PODS, _OUT_OF = "pods", "OutOf"
OS_LABEL, OS = "kubernetes.io/os", "linux"
_NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_NO_TOLERATION = "node(s) had taints that the pod didn't tolerate"
_NO_PORTS = "node(s) didn't have free ports for the requested pod ports"

Amounts = dict[str, int]
"""Resource amounts by name: CPU in millicores, everything else in whole units."""


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
        _other_system(pod)
        or _fits(node, requests, used, pods)
        or (None if RequiredNodeAffinity(pod.spec).matches(node) else _failed(NODE_AFFINITY, _NO_AFFINITY))
        or (_failed(NODE_PORTS, _NO_PORTS) if _clash(ports_of(pod), ports) else None)
        or (None if _tolerates(pod, node) else _failed(TAINT_TOLERATION, _NO_TOLERATION))
    )


def _other_system(pod: Pod) -> PodFailure | None:
    if pod.metadata.labels.get(OS_LABEL, OS) != OS:
        text = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        return PodFailure(reason="PodOSSelectorNodeLabelDoesNotMatch", message=text)
    if pod.spec.os is not None and pod.spec.os.name != OS:
        return PodFailure(
            reason="PodOSNotSupported", message="Failed to admit pod as the OS field doesn't match node OS"
        )
    return None


def _failed(predicate: str, why: str) -> PodFailure:
    return PodFailure(reason=predicate, message=f"Predicate {predicate} failed: {why}")


def _fits(node: Node, requests: Mapping[str, int], used: Mapping[str, int], pods: int) -> PodFailure | None:
    missing, has = lacking(node, requests, used, pods), allocatable_of(node)
    for name in missing:
        held, requested = (pods, 1) if name == PODS else (used.get(name, 0), requests[name])
        return _short(name, requested, held, has.get(name, 0))
    return None


def lacking(node: Node, requests: Mapping[str, int], used: Mapping[str, int], pods: int) -> Amounts:
    """Return how much of each resource the node lacks in order to take a pod with the requests `requests`."""
    has = allocatable_of(node)
    shortfalls = {PODS: pods + 1 - has.get(PODS, 0)}
    for name in (*_COUNTED, *(name for name in requests if name not in _COUNTED)):
        requested = requests.get(name, 0)
        if requested and (name in has or not resource_names.is_extended(name)):
            shortfalls[name] = used.get(name, 0) + requested - has.get(name, 0)
    return {name: amount for name, amount in shortfalls.items() if amount > 0}


def is_lack_of_resources(failure: PodFailure) -> bool:
    return failure.reason.startswith(_OUT_OF)


def _short(name: str, requested: int, used: int, has: int) -> PodFailure:
    text = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {has}"
    return PodFailure(reason=f"{_OUT_OF}{name}", message=text)


def _clash(ports: Iterable[tuple[str, str, int]], held: Iterable[tuple[str, str, int]]) -> bool:
    held_ports = list(held)
    return any(
        (protocol, port) == (other[1], other[2]) and (address == other[0] or "0.0.0.0" in (address, other[0]))
        for address, protocol, port in ports
        for other in held_ports
    )


def _tolerates(pod: Pod, node: Node) -> bool:
    """Whether the pod tolerates the node's NoExecute taints. Other effects concern only scheduling."""
    return not untolerated(node.spec.taints, pod.spec.tolerations, (NO_EXECUTE,))
