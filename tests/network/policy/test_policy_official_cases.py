"""The cases of the official suite (test/e2e/network/netpol) by name, as truth tables of pods x/a to z/c.

Each step changes objects and says who may reach whom; what no line of a step names is reachable. Packets are real, and
the oracle of the other tests has to agree with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.api.types.networking_v1 import (
    IPBlock,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from tests.network.pods.lab import needs_network
from tests.network.policy import objects
from tests.network.policy.policy_lab import PODS, PolicyLab, labels_of

pytestmark = needs_network

Line = tuple[str, str, bool]
"""Sources, destinations (`*`, `x/*` or `x/a`), and whether these reach those. A later line overrides earlier ones."""


@dataclass(frozen=True)
class Step:
    change: Callable[[PolicyLab], object]
    table: Sequence[Line] = ()
    port: int = 80
    protocol: str = "TCP"


# -- short forms of policies -------------------------------------------------------------------------------------------


def pods(**labels: str) -> NetworkPolicyPeer:
    return NetworkPolicyPeer(podSelector=objects.selector(**labels))


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=list(values))
    return LabelSelector(matchExpressions=[requirement])


def namespaces_named(*names: str, operator: str = "In") -> LabelSelector:
    """Select namespaces by name."""
    return expression("kubernetes.io/metadata.name", operator, *names)


def namespace_named(name: str) -> LabelSelector:
    return LabelSelector(matchLabels={"kubernetes.io/metadata.name": name})


def port(number: int | str | None, protocol: str | None = None) -> NetworkPolicyPort:
    return NetworkPolicyPort(port=number, protocol=protocol)


def ingress(*peers: NetworkPolicyPeer, ports: Sequence[NetworkPolicyPort] = ()) -> NetworkPolicyIngressRule:
    return NetworkPolicyIngressRule(from_=list(peers), ports=list(ports))


def egress(*peers: NetworkPolicyPeer, ports: Sequence[NetworkPolicyPort] = ()) -> NetworkPolicyEgressRule:
    return NetworkPolicyEgressRule(to=list(peers), ports=list(ports))


def allow(
    key: str,
    *rules: NetworkPolicyIngressRule | NetworkPolicyEgressRule,
    types: Sequence[str] = (),
    target: Mapping[str, str] | None = None,
) -> Callable[[PolicyLab], object]:
    """Create a policy. Its types are those of its rules unless they are given."""
    incoming = [rule for rule in rules if isinstance(rule, NetworkPolicyIngressRule)]
    outgoing = [rule for rule in rules if isinstance(rule, NetworkPolicyEgressRule)]
    inferred = [name for name, items in (("Ingress", incoming), ("Egress", outgoing)) if items]
    spec = NetworkPolicySpec(
        podSelector=LabelSelector(matchLabels=dict(target or {})),
        policyTypes=list(types) or inferred,
        ingress=incoming,
        egress=outgoing,
    )
    return lambda lab: lab.policy(key, spec)


def combine_changes(*changes: Callable[[PolicyLab], object]) -> Callable[[PolicyLab], object]:
    return lambda lab: [change(lab) for change in changes]


def change_nothing(lab: PolicyLab) -> None:
    return


def delete_all(lab: PolicyLab) -> None:
    for policy in list(lab.policies.values()):
        lab.remove(policy)


def allow_egress_to(key: str, *, is_excepted: bool, cidr: str = "10.0.0.0/8") -> Callable[[PolicyLab], object]:
    """Allow x/a to connect to the address of a pod only, or to a large block without it."""

    def change(lab: PolicyLab) -> object:
        host = f"{lab.addresses[key][0]}/32"
        block = IPBlock(cidr=cidr, except_=[host]) if is_excepted else IPBlock(cidr=host)
        rule = egress(NetworkPolicyPeer(ipBlock=block))
        return allow("x/allow-client-a-via-cidr-egress-rule", rule, target=A)(lab)

    return change


A, B = {"pod": "a"}, {"pod": "b"}
FROM_Y = NetworkPolicyPeer(namespaceSelector=namespace_named("y"))
DENY_INGRESS = ("*", "x/*", False)
DENY_EGRESS = ("x/*", "*", False)
TO_A = ("*", "x/a", False)
FROM_A = ("x/a", "*", False)
ONLY_Y = (TO_A, ("y/*", "x/a", True))
Y_A_TO_X_A = allow(
    "x/allow-ns-y-pod-a",
    ingress(NetworkPolicyPeer(namespaceSelector=namespace_named("y"), podSelector=objects.selector(pod="a"))),
    target=A,
)

CASES: dict[str, Sequence[Step]] = {
    "should support a 'default-deny-ingress' policy": [
        Step(allow("x/deny-ingress", types=["Ingress"]), [DENY_INGRESS])
    ],
    "should support a 'default-deny-all' policy": [
        Step(allow("x/deny-all", types=["Ingress", "Egress"]), [DENY_INGRESS, DENY_EGRESS])
    ],
    "should enforce policy to allow traffic from pods within server namespace based on PodSelector": [
        Step(allow("x/a-allows-b", ingress(pods(pod="b")), target=A), [TO_A, ("x/b", "x/a", True)])
    ],
    "should enforce policy to allow ingress traffic for a target": [
        Step(
            combine_changes(
                allow("x/deny-all", types=["Ingress"]),
                allow(
                    "x/allow-all-to-a",
                    ingress(
                        NetworkPolicyPeer(podSelector=LabelSelector(), namespaceSelector=LabelSelector()),
                    ),
                    target=A,
                ),
            ),
            [DENY_INGRESS, ("*", "x/a", True)],
        )
    ],
    "should enforce policy to allow ingress traffic from pods in all namespaces": [
        Step(allow("x/all", ingress(NetworkPolicyPeer(namespaceSelector=LabelSelector())), target=A))
    ],
    "should enforce policy to allow traffic only from a different namespace, based on NamespaceSelector": [
        Step(allow("x/from-y", ingress(FROM_Y), target=A), ONLY_Y)
    ],
    "should enforce policy based on PodSelector with MatchExpressions": [
        Step(
            allow("x/b", ingress(NetworkPolicyPeer(podSelector=expression("pod", "In", "b"))), target=A),
            [TO_A, ("x/b", "x/a", True)],
        )
    ],
    "should enforce policy based on NamespaceSelector with MatchExpressions": [
        Step(allow("x/y", ingress(NetworkPolicyPeer(namespaceSelector=namespaces_named("y"))), target=A), ONLY_Y)
    ],
    "should enforce policy based on PodSelector or NamespaceSelector": [
        Step(
            allow(
                "x/or",
                ingress(NetworkPolicyPeer(namespaceSelector=namespaces_named("x", operator="NotIn")), pods(pod="b")),
                target=A,
            ),
            [("x/c", "x/a", False)],
        )
    ],
    "should enforce policy based on PodSelector and NamespaceSelector": [
        Step(
            allow(
                "x/and",
                ingress(
                    NetworkPolicyPeer(
                        namespaceSelector=namespaces_named("x", operator="NotIn"), podSelector=objects.selector(pod="b")
                    )
                ),
                target=A,
            ),
            [TO_A, ("y/b", "x/a", True), ("z/b", "x/a", True)],
        )
    ],
    "should enforce policy based on Multiple PodSelectors and NamespaceSelectors": [
        Step(
            allow(
                "x/many",
                ingress(
                    NetworkPolicyPeer(
                        namespaceSelector=namespaces_named("x", operator="NotIn"),
                        podSelector=expression("pod", "In", "b", "c"),
                    )
                ),
                target=A,
            ),
            [("x/*", "x/a", False), ("y/a", "x/a", False), ("z/a", "x/a", False)],
        )
    ],
    "should enforce policy based on any PodSelectors": [
        Step(
            allow("x/b-c", ingress(pods(pod="b"), pods(pod="c")), target=A),
            [TO_A, ("x/b", "x/a", True), ("x/c", "x/a", True)],
        )
    ],
    "should enforce policy to allow traffic only from a pod in a different namespace based on PodSelector and "
    "NamespaceSelector": [Step(Y_A_TO_X_A, [TO_A, ("y/a", "x/a", True)])],
    "should enforce policy based on Ports": [
        Step(allow("x/81", ingress(FROM_Y, ports=[port(81, "TCP")]), target=A), ONLY_Y, port=81)
    ],
    "should enforce multiple, stacked policies with overlapping podSelectors": [
        Step(allow("x/81", ingress(FROM_Y, ports=[port(81, "TCP")]), target=A), ONLY_Y, port=81),
        Step(change_nothing, [TO_A]),
        Step(allow("x/80", ingress(FROM_Y, ports=[port(80, "TCP")]), target=A), ONLY_Y),
    ],
    "should support allow-all policy": [Step(allow("x/allow-all", ingress())), Step(change_nothing, port=81)],
    "should allow ingress access on one named port": [
        Step(allow("x/named", ingress(ports=[port("serve-81-tcp")])), port=81),
        Step(change_nothing, [DENY_INGRESS]),
    ],
    "should allow ingress access from namespace on one named port": [
        Step(allow("x/named", ingress(FROM_Y, ports=[port("serve-80-tcp", "TCP")]), target=A), ONLY_Y),
        Step(change_nothing, [TO_A], port=81),
    ],
    "should allow egress access on one named port": [
        Step(allow("x/named", egress(ports=[port("serve-80-tcp")]))),
        Step(change_nothing, [DENY_EGRESS], port=81),
    ],
    "should enforce updated policy": [
        Step(allow("x/mutated", ingress()), port=81),
        Step(allow("x/mutated", types=["Ingress"]), [DENY_INGRESS], port=81),
    ],
    "should allow ingress access from updated namespace": [
        Step(
            allow("x/ns2", ingress(NetworkPolicyPeer(namespaceSelector=objects.selector(ns2="updated"))), target=A),
            [TO_A],
        ),
        Step(lambda lab: lab.put(objects.namespace("y", {"ns2": "updated"})), ONLY_Y),
    ],
    "should allow ingress access from updated pod": [
        Step(allow("x/pod2", ingress(pods(pod="b", pod2="updated")), target=A), [TO_A]),
        Step(lambda lab: lab.relabel("x/b", {**labels_of("x/b"), "pod2": "updated"}), [TO_A, ("x/b", "x/a", True)]),
    ],
    "should deny ingress from pods on other namespaces": [
        Step(allow("x/own", ingress(pods())), [("y/*", "x/*", False), ("z/*", "x/*", False)])
    ],
    "should deny ingress access to updated pod": [
        Step(allow("x/isolated", types=["Ingress"], target={"target": "isolated"})),
        Step(lambda lab: lab.relabel("x/a", {**labels_of("x/a"), "target": "isolated"}), [TO_A]),
    ],
    "should deny egress from pods based on PodSelector": [
        Step(allow("x/deny-egress-a", types=["Egress"], target=A), [FROM_A])
    ],
    "should deny egress from all pods in a namespace": [Step(allow("x/deny-egress", types=["Egress"]), [DENY_EGRESS])],
    "should work with Ingress, Egress specified together": [
        Step(
            allow("x/both", ingress(pods(pod="b")), egress(ports=[port(80)]), target=A),
            [TO_A, ("x/b", "x/a", True)],
        ),
        Step(change_nothing, [TO_A, FROM_A, ("x/b", "x/a", True)], port=81),
    ],
    "should support denying of egress traffic on the client side (even if the server explicitly allows this traffic)": [
        Step(
            combine_changes(
                allow(
                    "x/to-y-a",
                    egress(
                        NetworkPolicyPeer(namespaceSelector=namespace_named("y"), podSelector=objects.selector(pod="a"))
                    ),
                    target=A,
                ),
                *(
                    allow(
                        f"y/from-x-a-{name}",
                        ingress(
                            NetworkPolicyPeer(
                                namespaceSelector=namespace_named("x"), podSelector=objects.selector(pod="a")
                            )
                        ),
                        target={"pod": name},
                    )
                    for name in "ab"
                ),
            ),
            [FROM_A, ("*", "y/a", False), ("x/a", "y/a", True), ("*", "y/b", False)],
        )
    ],
    "should enforce egress policy allowing traffic to a server in a different namespace based on PodSelector and "
    "NamespaceSelector": [
        Step(
            allow(
                "x/to-y-a",
                egress(
                    NetworkPolicyPeer(namespaceSelector=namespace_named("y"), podSelector=objects.selector(pod="a"))
                ),
                target=A,
            ),
            [FROM_A, ("x/a", "y/a", True)],
        )
    ],
    "should enforce ingress policy allowing any port traffic to a server on a specific protocol": [
        Step(allow("x/tcp", ingress(ports=[port(None, "TCP")]), target=A)),
        Step(change_nothing, [TO_A], protocol="UDP"),
    ],
    "should enforce multiple ingress policies with ingress allow-all policy taking precedence": [
        Step(allow("x/80", ingress(ports=[port(80)])), [DENY_INGRESS], port=81),
        Step(allow("x/all", ingress()), port=81),
    ],
    "should enforce multiple egress policies with egress allow-all policy taking precedence": [
        Step(allow("x/80", egress(ports=[port(80)])), [DENY_EGRESS], port=81),
        Step(allow("x/all", egress()), port=81),
    ],
    "should stop enforcing policies after they are deleted": [
        Step(allow("x/deny-all", types=["Ingress", "Egress"]), [DENY_INGRESS, DENY_EGRESS]),
        Step(delete_all),
    ],
    "should allow egress access to server in CIDR block": [
        Step(allow_egress_to("y/b", is_excepted=False), [FROM_A, ("x/a", "y/b", True)])
    ],
    "should enforce except clause while egress access to server in CIDR block": [
        Step(allow_egress_to("x/b", is_excepted=True), [("x/a", "x/b", False)])
    ],
    "should ensure an IP overlapping both IPBlock.CIDR and IPBlock.Except is allowed": [
        Step(allow_egress_to("x/b", is_excepted=True), [("x/a", "x/b", False)]),
        Step(allow_egress_to("x/b", is_excepted=False), [FROM_A, ("x/a", "x/b", True)]),
    ],
    "should enforce policies to check ingress and egress policies can be controlled independently based on "
    "PodSelector": [
        Step(allow("x/allow-egress", egress(), target=A)),
        Step(allow("x/deny-ingress", types=["Ingress"], target=A), [TO_A]),
    ],
    "should not mistakenly treat 'protocol: SCTP' as 'protocol: TCP', even if the plugin doesn't support SCTP": [
        Step(
            combine_changes(
                allow("x/deny", types=["Ingress"]), allow("x/sctp", ingress(ports=[port(81, "SCTP")]), target=A)
            ),
            [DENY_INGRESS],
            port=81,
        )
    ],
    "should properly isolate pods that are selected by a policy allowing SCTP, even if the plugin doesn't support "
    "SCTP": [Step(allow("x/sctp", ingress(ports=[port(80, "SCTP")]), target=A), [TO_A], port=81)],
    "should not allow access by TCP when a policy specifies only UDP": [
        Step(allow("x/udp", ingress(ports=[port(81, "UDP")]), target=A), [TO_A], port=81)
    ],
    "should enforce policy to allow traffic based on NamespaceSelector with MatchLabels using default ns label": [
        Step(allow("x/default-label", ingress(FROM_Y), target=A), ONLY_Y)
    ],
    "should enforce policy based on NamespaceSelector with MatchExpressions using default ns label": [
        Step(
            allow(
                "x/not-y",
                egress(NetworkPolicyPeer(namespaceSelector=namespaces_named("y", operator="NotIn"))),
                target=A,
            ),
            [("x/a", "y/*", False)],
        )
    ],
}


def _protocol_cases(protocol: str) -> dict[str, Sequence[Step]]:
    """Return the cases that the suite repeats for another protocol."""
    return {
        "should support a 'default-deny-ingress' policy": [
            Step(allow("x/deny-ingress", types=["Ingress"]), [DENY_INGRESS], protocol=protocol)
        ],
        "should enforce policy based on Ports": [
            Step(
                allow("x/81", ingress(FROM_Y, ports=[port(81, protocol)]), target=A),
                ONLY_Y,
                port=81,
                protocol=protocol,
            )
        ],
        "should enforce policy to allow traffic only from a pod in a different namespace based on PodSelector and "
        "NamespaceSelector": [Step(Y_A_TO_X_A, [TO_A, ("y/a", "x/a", True)], protocol=protocol)],
    }


ALL_CASES = [
    *(pytest.param(steps, id=name) for name, steps in CASES.items()),
    *(pytest.param(steps, id=f"UDP {name}") for name, steps in _protocol_cases("UDP").items()),
    *(pytest.param(steps, id=f"SCTP {name}") for name, steps in _protocol_cases("SCTP").items()),
]


@pytest.mark.parametrize("steps", ALL_CASES)
def test_official_case(policy_lab: PolicyLab, steps: Sequence[Step]) -> None:
    policy_lab.reset()
    for step in steps:
        step.change(policy_lab)
        policy_lab.commit()
        through = policy_lab.check(step.port, step.protocol)
        assert through == {pair: _is_reachable(pair, step.table) for pair in through}


def _is_reachable(pair: tuple[str, str], table: Sequence[Line]) -> bool:
    is_reachable = True
    for source, destination, is_through in table:
        if _covers(source, pair[0]) and _covers(destination, pair[1]):
            is_reachable = is_through
    return is_reachable


def _covers(pattern: str, pod: str) -> bool:
    return pattern in ("*", pod) or (pattern.endswith("/*") and pod.startswith(pattern[:-1]))


def test_pod_patterns_of_truth_tables() -> None:
    assert [pod for pod in PODS if _covers("x/*", pod)] == ["x/a", "x/b", "x/c"]
