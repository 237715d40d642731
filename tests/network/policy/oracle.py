"""A brute-force evaluator of NetworkPolicies, straight from the text of the API documentation: the oracle of the tests.

It shares no code with the compiler, not even the evaluation of selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.meta_v1 import LabelSelector
from sampan.api.types.networking_v1 import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection."""

    source: str
    destination: str
    protocol: str
    port: int


class Oracle:
    def __init__(
        self, *, namespaces: Iterable[Namespace], pods: Iterable[Pod], policies: Iterable[NetworkPolicy]
    ) -> None:
        self._namespaces = {namespace.metadata.name: namespace for namespace in namespaces}
        self._policies = list(policies)
        self._pods = {item.ip: pod for pod in pods if not pod.spec.hostNetwork for item in pod.status.podIPs}

    def allows(self, packet: Packet) -> bool:
        if packet.source == packet.destination:
            return True
        source, destination = self._pods.get(packet.source), self._pods.get(packet.destination)
        return self._direction_allows(source, "Egress", packet) and self._direction_allows(
            destination, "Ingress", packet
        )

    def _direction_allows(self, pod: Pod | None, direction: str, packet: Packet) -> bool:
        if pod is None:
            return True
        policies = [policy for policy in self._policies if self._selects(policy, pod) and direction in types_of(policy)]
        if not policies:
            return True
        return any(self._policy_allows(policy, direction, packet) for policy in policies)

    def _selects(self, policy: NetworkPolicy, pod: Pod) -> bool:
        if policy.metadata.namespace != pod.metadata.namespace:
            return False
        return matches(policy.spec.podSelector, pod.metadata.labels)

    def _policy_allows(self, policy: NetworkPolicy, direction: str, packet: Packet) -> bool:
        if direction == "Ingress":
            rules: Sequence[tuple[Sequence[NetworkPolicyPeer], Sequence[NetworkPolicyPort]]] = [
                (rule.from_, rule.ports) for rule in policy.spec.ingress
            ]
            peer = packet.source
        else:
            rules = [(rule.to, rule.ports) for rule in policy.spec.egress]
            peer = packet.destination
        for peers, ports in rules:
            is_peer = not peers or any(self._is_peer(item, policy.metadata.namespace, peer) for item in peers)
            if is_peer and (not ports or any(self._is_port(item, packet) for item in ports)):
                return True
        return False

    def _is_peer(self, peer: NetworkPolicyPeer, namespace: str, address: str) -> bool:
        if peer.ipBlock is not None:
            ip = ip_address(address)
            if ip not in ip_network(peer.ipBlock.cidr, strict=False):
                return False
            return not any(ip in ip_network(cidr, strict=False) for cidr in peer.ipBlock.except_)
        pod = self._pods.get(address)
        if pod is None:
            return False
        if peer.namespaceSelector is None:
            if pod.metadata.namespace != namespace:
                return False
        else:
            owner = self._namespaces.get(pod.metadata.namespace)
            if owner is None or not matches(peer.namespaceSelector, owner.metadata.labels):
                return False
        return peer.podSelector is None or matches(peer.podSelector, pod.metadata.labels)

    def _is_port(self, port: NetworkPolicyPort, packet: Packet) -> bool:
        if (port.protocol or "TCP") != packet.protocol:
            return False
        if port.port is None:
            return True
        if isinstance(port.port, int):
            return port.port <= packet.port <= (port.endPort or port.port)
        pod = self._pods.get(packet.destination)
        if pod is None:
            return False
        return any(
            item.name == port.port and (item.protocol or "TCP") == packet.protocol and item.containerPort == packet.port
            for container in pod.spec.containers or ()
            for item in container.ports
        )


def types_of(policy: NetworkPolicy) -> Sequence[str]:
    if policy.spec.policyTypes:
        return policy.spec.policyTypes
    return ["Ingress", "Egress"] if policy.spec.egress else ["Ingress"]


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.matchLabels.items()):
        return False
    for expression in selector.matchExpressions:
        value = labels.get(expression.key)
        is_satisfied = {
            "In": value in expression.values,
            "NotIn": value not in expression.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[expression.operator]
        if not is_satisfied:
            return False
    return True
