"""The compiled table decides like the oracle, after any sequence of changes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.networking_v1 import NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicySpec
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.policy.compiler import PolicyCompiler, PolicyConfig
from sampan.network.policy.pods import endpoint_of
from sampan.network.policy.policy_spec import policy_spec
from tests.network.policy import objects
from tests.network.policy.kernel_model import KernelModel
from tests.network.policy.oracle import Oracle, Packet


class Node:
    """The compiler of a node and a model of its kernel."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiler = PolicyCompiler(PolicyConfig(node=name, node_addresses=["192.0.2.1"], bridge="bridge"))
        self.kernel = KernelModel()
        self.now = 0.0
        self.text = self.compiler.table.render_replacement()
        self.kernel.run(self.text)

    def commit(self) -> str:
        self.now += 0.7
        self.text = self.compiler.table.changes(self.now)
        self.kernel.run(self.text)
        return self.text

    def put_namespace(self, item: Namespace | None, name: str) -> None:
        self.compiler.put_namespace(name, item.metadata.labels if item is not None else None)

    def put_pod(self, item: Pod | None, key: NamespacedName) -> None:
        self.compiler.put_pod(key, endpoint_of(item) if item is not None else None)

    def put_policy(self, item: NetworkPolicy | None, key: NamespacedName) -> None:
        self.compiler.put_policy(key, policy_spec(item) if item is not None else None)


class Cluster:
    """All objects of a cluster, and the nodes that watch them."""

    def __init__(self) -> None:
        self.nodes = {name: Node(name) for name in objects.NODES}
        self.namespaces: dict[str, Namespace] = {}
        self.pods: dict[NamespacedName, Pod] = {}
        self.policies: dict[NamespacedName, NetworkPolicy] = {}

    def put(self, item: Namespace | Pod | NetworkPolicy) -> None:
        if isinstance(item, Namespace):
            self.namespaces[item.metadata.name] = item
        elif isinstance(item, Pod):
            self.pods[key_of(item)] = item
        else:
            self.policies[key_of(item)] = item
        self._notify_nodes(item)

    def remove(self, item: Namespace | Pod | NetworkPolicy) -> None:
        if isinstance(item, Namespace):
            self.namespaces.pop(item.metadata.name, None)
        elif isinstance(item, Pod):
            self.pods.pop(key_of(item), None)
        else:
            self.policies.pop(key_of(item), None)
        self._notify_nodes(item)

    def _notify_nodes(self, item: Namespace | Pod | NetworkPolicy) -> None:
        key = key_of(item)
        for node in self.nodes.values():
            if isinstance(item, Namespace):
                node.put_namespace(self.namespaces.get(key.name), key.name)
            elif isinstance(item, Pod):
                node.put_pod(self.pods.get(key), key)
            else:
                node.put_policy(self.policies.get(key), key)

    def commit(self) -> None:
        for node in self.nodes.values():
            node.commit()

    def accepts(self, packet: Packet) -> bool:
        """Return whether the nodes of both ends forward the packet."""
        ends = {self._node_of(packet.source), self._node_of(packet.destination)} - {""}
        return all(self.nodes[name].kernel.accepts(packet) for name in ends)

    def _node_of(self, address: str) -> str:
        for pod in self.pods.values():
            if address in [item.ip for item in pod.status.podIPs] and not pod.spec.hostNetwork:
                return pod.spec.nodeName
        return ""

    def oracle(self) -> Oracle:
        return Oracle(namespaces=self.namespaces.values(), pods=self.pods.values(), policies=self.policies.values())


_POLICIES = st.builds(
    lambda spec, namespace, name: objects.policy(f"{namespace}/{name}", spec),
    objects.policies(),
    st.sampled_from(objects.NAMESPACES),
    st.sampled_from(("p", "q")),
)
_PODS = st.tuples(*(objects.pods([key]) for key in objects.POD_KEYS))
_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "remove")),
        st.one_of(objects.namespaces(), objects.pods(), objects.pods(), _POLICIES),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(
    pods=_PODS,
    policies=st.lists(_POLICIES, min_size=1, max_size=5),
    changes=_CHANGES,
    chance=st.randoms(use_true_random=False),
)
def test_tables_decide_like_the_oracle(
    pods: Sequence[Pod],
    policies: Sequence[NetworkPolicy],
    changes: Sequence[tuple[str, Namespace | Pod | NetworkPolicy, bool]],
    chance: Random,
) -> None:
    cluster = Cluster()
    start: list[Namespace | Pod | NetworkPolicy] = [*map(objects.namespace, objects.NAMESPACES), *pods, *policies]
    chance.shuffle(start)
    for item in start:
        cluster.put(item)
    for action, item, is_committed in changes:
        getattr(cluster, action)(item)
        if is_committed:
            cluster.commit()
    cluster.commit()
    oracle = cluster.oracle()
    for packet in objects.packets(list(cluster.pods.values()), Random(1)):
        assert cluster.accepts(packet) == oracle.allows(packet), packet
    _check_final_tables(cluster)


def _check_final_tables(cluster: Cluster) -> None:
    """Check that incremental changes lead to the same table as a rewrite, and that the next commit changes nothing."""
    for node in cluster.nodes.values():
        node.now += 2
        node.commit()
        node.now += 2
        node.commit()
        assert node.commit() == ""
        assert not node.compiler.table.is_changed
        fresh = KernelModel()
        fresh.run(node.compiler.table.render_replacement())
        assert fresh == node.kernel


def test_deleting_the_last_policy_removes_all_sets_and_chains() -> None:
    cluster = Cluster()
    node = cluster.nodes["n0"]
    base = set(node.kernel.sets)
    rule = NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(podSelector=objects.selector(a="1"))])
    policy = objects.policy("x/p", NetworkPolicySpec(podSelector=objects.selector(), ingress=[rule]))
    for item in (objects.namespace("x"), objects.pod("x/a", "10.244.0.2"), policy):
        cluster.put(item)
    cluster.commit()
    assert set(node.kernel.sets) > base
    assert "ingress" in node.kernel.chains
    cluster.remove(policy)
    cluster.commit()
    assert not any(chain.rules for chain in node.kernel.chains.values())
    node.now += 2
    cluster.commit()
    assert set(node.kernel.sets) == base
    assert not node.kernel.chains


def test_pod_changes_only_add_or_delete_set_elements() -> None:
    cluster = Cluster()
    rule = NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(podSelector=objects.selector(a="1"))])
    for item in (
        objects.namespace("x"),
        objects.pod("x/server", "10.244.0.2", "fd00::2", labels={"app": "server"}),
        objects.policy("x/p", NetworkPolicySpec(podSelector=objects.selector(app="server"), ingress=[rule])),
    ):
        cluster.put(item)
    cluster.commit()
    cluster.put(objects.pod("x/client", "10.244.1.2", labels={"a": "1"}, node="n1"))
    (line,) = cluster.nodes["n0"].commit().splitlines()
    assert line.startswith("add element inet sampan-netpol pods4-")
    assert line.endswith(" { 10.244.1.2 }")
    cluster.put(objects.pod("x/client", "10.244.1.2", labels={"a": "2"}, node="n1"))
    (line,) = cluster.nodes["n0"].commit().splitlines()
    assert line.startswith("delete element inet sampan-netpol pods4-")
    assert line.endswith(" { 10.244.1.2 }")
    cluster.put(objects.pod("x/other", "10.244.0.3", labels={"app": "server"}))
    lines = cluster.nodes["n0"].commit().splitlines()
    assert {line.split(" ")[1] for line in lines} == {"element"}


def test_pods_without_policies_have_no_elements() -> None:
    cluster = Cluster()
    cluster.put(objects.namespace("x"))
    cluster.put(objects.pod("x/a", "10.244.0.2"))
    assert cluster.nodes["n0"].commit() == ""


def test_a_sandbox_is_isolated_until_its_pod_is_known() -> None:
    node = Node("n0")
    node.compiler.attach("uid-x/a", ["10.244.0.2"])
    node.commit()
    packet = Packet("10.244.0.2", "10.244.0.3", "TCP", 80)
    assert not node.kernel.accepts(packet)
    node.put_pod(objects.pod("x/a"), NamespacedName("x", "a"))
    node.commit()
    assert node.kernel.accepts(packet)


def test_policy_applies_to_the_address_of_the_sandbox_not_of_the_pod_status() -> None:
    """A pod whose sandbox is gone still reports its address, which the next pod may have."""
    node = Node("n0")
    deny = objects.policy("x/deny", NetworkPolicySpec(podSelector=objects.selector(app="old")))
    node.put_policy(deny, key_of(deny))
    for name, uid in (("a", "old"), ("b", "new")):
        labels = {"app": uid}
        node.put_pod(objects.pod(f"x/{name}", uid=uid, labels=labels), NamespacedName("x", name))
    node.compiler.attach("old", ["10.244.0.2"])
    node.put_pod(objects.pod("x/a", "10.244.0.2", uid="old", labels={"app": "old"}), NamespacedName("x", "a"))
    node.commit()
    packet = Packet("10.244.0.3", "10.244.0.2", "TCP", 80)
    assert not node.kernel.accepts(packet)
    node.compiler.detach("old")
    node.compiler.attach("new", ["10.244.0.2"])
    node.commit()
    assert node.kernel.accepts(packet)


def test_kubelet_reaches_isolated_pods_but_pods_cannot_spoof_its_address() -> None:
    node = Node("n0")
    node.compiler.attach("uid", ["10.244.0.2"])
    node.commit()
    packet = Packet("192.0.2.1", "10.244.0.2", "TCP", 80)
    assert node.kernel.accepts(packet, interface="eth0")
    assert not node.kernel.accepts(packet, interface="bridge")


def test_table_contains_no_names_or_labels_of_objects() -> None:
    cluster = Cluster()
    rule = NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(namespaceSelector=objects.selector(secret="team"))])
    for item in (
        objects.namespace("x"),
        objects.pod("x/server", "10.244.0.2", labels={"secret": "word"}),
        objects.policy(
            "x/confidential", NetworkPolicySpec(podSelector=objects.selector(secret="word"), ingress=[rule])
        ),
    ):
        cluster.put(item)
    text = cluster.nodes["n0"].compiler.table.render_replacement()
    assert not [word for word in ("confidential", "secret", "team", "word", "server") if word in text]


def test_policy_with_too_many_rules_is_truncated() -> None:
    node = Node("n0")
    rules = [
        NetworkPolicyIngressRule(from_=[NetworkPolicyPeer(podSelector=objects.selector(n=str(n)))]) for n in range(2500)
    ]
    policy = objects.policy("x/large", NetworkPolicySpec(podSelector=objects.selector(), ingress=rules))
    node.put_policy(policy, key_of(policy))
    node.put_pod(objects.pod("x/a", "10.244.0.2"), NamespacedName("x", "a"))
    assert max(len(chain.rules) for chain in node.compiler.table.chains.values()) == 4000


def test_cost_of_a_policy_does_not_grow_with_the_number_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding a policy must not visit all pods of the node for all policies."""
    compiler = PolicyCompiler(PolicyConfig(node="n1"))
    compiler.put_namespace("a", {})
    for number in range(50):
        item = objects.pod(f"a/p{number}", f"10.0.0.{number + 1}", node="n1")
        compiler.put_pod(key_of(item), endpoint_of(item))
    counts: list[object] = []
    count = PolicyCompiler._count

    def record_count(self: PolicyCompiler, item: str, step: int) -> int:
        counts.append(item)
        return count(self, item, step)

    monkeypatch.setattr(PolicyCompiler, "_count", record_count)
    spec = NetworkPolicySpec(podSelector=objects.selector(), ingress=[NetworkPolicyIngressRule()])
    for number in range(60):
        counts.clear()
        added = objects.policy(f"a/q{number}", spec)
        compiler.put_policy(key_of(added), policy_spec(added))
    assert 0 < len(counts) < 500
