"""Builders of namespaces, pods and policies, and hypothesis strategies for random ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from random import Random

from hypothesis import strategies as st

from sampan.api.types.core_v1 import Container, ContainerPort, Namespace, Pod, PodIP, PodSpec, PodStatus
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from sampan.api.types.networking_v1 import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from tests.network.policy.oracle import Packet

NAMESPACES = ("x", "y", "z")
NODES = ("n0", "n1")
OUTSIDE = ("203.0.113.9", "10.244.9.9", "2001:db8:f::9")
PORTS = (80, 81, 82, 90)
NAMED = (("web", "TCP", 80), ("web", "TCP", 81), ("dns", "UDP", 81), ("sig", "SCTP", 80))


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name, **(labels or {})}))


def pod(
    key: str,
    *addresses: str,
    labels: Mapping[str, str] | None = None,
    node: str = "n0",
    ports: Sequence[tuple[str, str, int]] = (),
    host_network: bool = False,
    uid: str = "",
) -> Pod:
    namespace_name, _, name = key.partition("/")
    container_ports = [
        ContainerPort(name=port, protocol=protocol, containerPort=number) for port, protocol, number in ports
    ]
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace_name, uid=uid or f"uid-{key}", labels=dict(labels or {})),
        spec=PodSpec(nodeName=node, hostNetwork=host_network, containers=[Container(name="c", ports=container_ports)]),
        status=PodStatus(phase="Running", podIPs=[PodIP(ip=address) for address in addresses]),
    )


def policy(key: str, spec: NetworkPolicySpec) -> NetworkPolicy:
    namespace_name, _, name = key.partition("/")
    return NetworkPolicy(metadata=ObjectMeta(name=name, namespace=namespace_name, uid=f"uid-{key}"), spec=spec)


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(matchLabels=labels)


# -- random objects --------------------------------------------------------------------------------------------------

# Strategies are made once: each new one that a draw used would be validated again.
_LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
_SELECTOR_KINDS = st.sampled_from(("all", "labels", "expression", "both"))
_OPERATORS = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist"))
_VALUES = st.lists(st.sampled_from("12"), min_size=1, max_size=2, unique=True)
_LABEL_KEYS = st.sampled_from("ab")


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector:
    kind = draw(_SELECTOR_KINDS)
    labels = draw(_LABELS) if kind in ("labels", "both") else {}
    expressions = []
    if kind in ("expression", "both"):
        operator = draw(_OPERATORS)
        values = draw(_VALUES) if operator[-2:] == "In" else []
        expressions = [LabelSelectorRequirement(key=draw(_LABEL_KEYS), operator=operator, values=values)]
    return LabelSelector(matchLabels=labels, matchExpressions=expressions)


_SELECTORS = selectors()
_PEER_KINDS = st.sampled_from(("pods", "namespaces", "both", "block"))
_BLOCKS = st.sampled_from(
    (
        ("0.0.0.0/0", ()),
        ("::/0", ("fd00::/64",)),
        ("10.244.0.0/16", ("10.244.0.0/24",)),
        ("10.244.0.0/16", ("10.244.0.2/31", "10.244.1.0/25")),
        ("10.244.0.4/30", ()),
        ("10.244.1.0/24", ()),
        ("203.0.113.9/32", ()),
        ("fd00::/32", ("fd00:0:0:1::/64", "fd00::4/127")),
        ("0.0.0.0/0", ("0.0.0.0/1", "128.0.0.0/1")),
    )
)


@st.composite
def peers(draw: st.DrawFn) -> NetworkPolicyPeer:
    kind = draw(_PEER_KINDS)
    if kind == "block":
        cidr, exceptions = draw(_BLOCKS)
        return NetworkPolicyPeer(ipBlock=IPBlock(cidr=cidr, except_=list(exceptions)))
    return NetworkPolicyPeer(
        podSelector=draw(_SELECTORS) if kind in ("pods", "both") else None,
        namespaceSelector=draw(_SELECTORS) if kind in ("namespaces", "both") else None,
    )


_PROTOCOLS = st.sampled_from((None, "TCP", "UDP", "SCTP"))
_PORT_KINDS = st.sampled_from(("all", "number", "range", "name"))
_PORT_NAMES = st.sampled_from(("web", "dns", "sig", "none"))
_PORTS = st.sampled_from(PORTS)


@st.composite
def policy_ports(draw: st.DrawFn) -> NetworkPolicyPort:
    protocol = draw(_PROTOCOLS)
    kind = draw(_PORT_KINDS)
    if kind == "all":
        return NetworkPolicyPort(protocol=protocol)
    if kind == "name":
        return NetworkPolicyPort(protocol=protocol, port=draw(_PORT_NAMES))
    first = draw(_PORTS)
    return NetworkPolicyPort(
        protocol=protocol, port=first, endPort=draw(st.integers(first, 95)) if kind == "range" else None
    )


_POLICY_TYPES = st.sampled_from(([], ["Ingress"], ["Egress"], ["Ingress", "Egress"]))
_RULES = st.lists(st.tuples(st.lists(peers(), max_size=3), st.lists(policy_ports(), max_size=3)), max_size=2)


@st.composite
def policies(draw: st.DrawFn) -> NetworkPolicySpec:
    return NetworkPolicySpec(
        podSelector=draw(_SELECTORS),
        policyTypes=draw(_POLICY_TYPES),
        ingress=[NetworkPolicyIngressRule(from_=peers, ports=ports) for peers, ports in draw(_RULES)],
        egress=[NetworkPolicyEgressRule(to=peers, ports=ports) for peers, ports in draw(_RULES)],
    )


@st.composite
def namespaces(draw: st.DrawFn) -> Namespace:
    return namespace(draw(st.sampled_from(NAMESPACES)), draw(_LABELS))


POD_KEYS = tuple(f"{namespace}/{name}" for namespace in NAMESPACES for name in "abc")
_NODE_NUMBERS = st.integers(0, 1)
_NAMED_PORTS = st.lists(st.sampled_from(NAMED), max_size=2, unique_by=lambda port: (port[1], port[2]))
_HOST_NETWORK = st.integers(0, 19).map(lambda number: number == 0)


@st.composite
def pods(draw: st.DrawFn, keys: Sequence[str] = POD_KEYS) -> Pod:
    """Draw a pod, whose addresses depend on its key and node, so that no two pods have the same."""
    key, node = draw(st.sampled_from(keys)), draw(_NODE_NUMBERS)
    host = POD_KEYS.index(key) + 2
    return pod(
        key,
        f"10.244.{node}.{host}",
        *([_ip6(node, host)] if draw(st.booleans()) else []),
        labels=draw(_LABELS),
        node=NODES[node],
        ports=draw(_NAMED_PORTS),
        host_network=draw(_HOST_NETWORK),
        uid=f"{key} {node}",
    )


def _ip6(node: int, host: int) -> str:
    return str(ip_address(f"fd00:0:0:{node}::{host:x}"))


def packets(pods: Sequence[Pod], chance: Random) -> Iterator[Packet]:
    """Yield packets between all pairs of addresses, each with some ports."""
    addresses = [item.ip for pod in pods for item in pod.status.podIPs] + list(OUTSIDE)
    for source in addresses:
        for destination in addresses:
            if (":" in source) == (":" in destination):
                for _ in range(2):
                    yield Packet(source, destination, chance.choice(("TCP", "UDP", "SCTP")), chance.choice(PORTS))
