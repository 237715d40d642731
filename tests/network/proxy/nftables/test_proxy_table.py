"""The kube-proxy table in the kernel, in network namespaces of the lab."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.nftables import NftSocket, TransactionFailed
from sampan.machinery.object_key import NamespacedName
from sampan.network.nft import run_nft
from sampan.network.proxy.nftables.compiler import ServiceCompiler
from sampan.network.proxy.nftables.operations import operation_text
from sampan.network.proxy.nftables.proxy_table import ForeignTable, ProxyTable, RulesetGeneration
from sampan.network.proxy.nftables.table_state import Owned, ServiceStates
from sampan.network.proxy.nftables.table_sync import remove_tables
from sampan.network.proxy.proxy_config import ProxyConfig
from sampan.network.proxy.services import FAMILIES, IPV4, IPV6, EndpointCategories, EndpointInfo
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.pods.lab import Lab, needs_network
from tests.network.proxy.nftables.compilers import CONFIG, compiler_of
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, service
from tests.network.proxy.random_services import CLUSTER_CIDRS, RandomCluster

pytestmark = needs_network


class RecordingTable(ProxyTable):
    """A table that records the text of its transactions, and can reject transactions by their text."""

    def __init__(self, compiler: ServiceCompiler) -> None:
        self.now = 0.0
        super().__init__(compiler=compiler, generation=RulesetGeneration(), monotonic=lambda: self.now)
        self.compiler = compiler
        self.texts: list[str] = []
        self.is_rejected: Callable[[str], bool] = lambda text: False

    def _commit(self, operations: Iterable[Owned]) -> None:
        operations = list(operations)
        text = "".join(f"{operation_text(operation, self.compiler.family)}\n" for _, operation in operations)
        if self.is_rejected(text):
            raise TransactionFailed({-1: 12})
        super()._commit(operations)
        self.texts.append(text)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def states_of(cluster: RandomCluster) -> ServiceStates:
    tracker = ServiceTracker(node_name=NODE)
    cluster.track(tracker)
    tracker.take_changes()
    return tracker.services


def canonical_rules() -> list[str]:
    """Return the ruleset of the kernel, without handles, in an order that does not depend on its history."""
    listing: list[dict[str, Any]] = json.loads(run_nft("-j", "list", "ruleset"))["nftables"]
    rules: dict[tuple[str, str], list[str]] = {}
    others = []
    for entry in listing:
        [(kind, value)] = entry.items()
        value.pop("handle", None)
        if kind == "rule":
            rules.setdefault((value["family"], value["chain"]), []).append(json.dumps(value["expr"]))
        elif kind != "metainfo":
            value["elem"] = sorted(map(json.dumps, value.get("elem", ())))
            others.append(json.dumps(value, sort_keys=True))
    return sorted(others) + [f"{chain} {entries}" for chain, entries in sorted(rules.items())]


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        ProxyConfig(masquerade_all=True, node_port_addresses=()),
        ProxyConfig(detect_local_mode="BridgeInterface", local_interface="sampan0"),
        ProxyConfig(detect_local_mode="InterfaceNamePrefix", local_interface="veth", masquerade_bit=0),
        ProxyConfig(cluster_cidrs=[*CLUSTER_CIDRS, "10.245.0.0/17", "fd00:10:245::/48"]),
    ],
    ids=["cluster CIDR", "masquerade all", "bridge", "prefix", "two cluster CIDRs"],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_netlink_messages_create_the_same_rules_as_nft_text(lab: Lab, family: str, config: ProxyConfig) -> None:
    def write() -> tuple[str, bytes]:
        writer = RecordingTable(compiler_of(family, config))
        assert writer.rebuild(writer.compiler, states_of(RandomCluster(5, count=12).fill())) == {}
        assert writer.audit() == []
        writer.close()
        return writer.text, run_nft("list", "ruleset")

    text, listing = run_in_network(lab.node, write)
    assert (
        run_in_network(lab.outside, lambda: (run_nft("-f", "-", text=text), run_nft("list", "ruleset"))[1]) == listing
    )


@pytest.mark.parametrize("seed", range(4))
def test_incremental_changes_lead_to_the_same_rules_as_a_rebuild(lab: Lab, seed: int) -> None:
    cluster = RandomCluster(seed, count=8).fill()

    def change() -> list[str]:
        tracker = ServiceTracker(node_name=NODE)
        cluster.track(tracker)
        tracker.take_changes()
        writers = [RecordingTable(compiler_of(family)) for family in FAMILIES]
        for writer in writers:
            writer.rebuild(writer.compiler, tracker.services)
        for _ in range(40):
            cluster.change(tracker)
            changes = {change.service: change.current for change in tracker.take_changes()}
            for writer in writers:
                assert writer.apply(changes) == {}
                writer.now += 0.4
                writer.delete_stale_chains()
        for writer in writers:
            writer.now += 2
            writer.delete_stale_chains()
            assert writer.audit() == []
            assert writer.is_complete()
            writer.close()
        return canonical_rules()

    def start() -> list[str]:
        for family in FAMILIES:
            writer = RecordingTable(compiler_of(family))
            writer.rebuild(writer.compiler, states_of(cluster))
            writer.close()
        return canonical_rules()

    assert run_in_network(lab.node, change) == run_in_network(lab.outside, start)


def test_rebuild_replaces_the_rules_of_a_previous_run(lab: Lab) -> None:
    """The services of the two runs differ completely."""
    clusters = [RandomCluster(1, count=8).fill(), RandomCluster(2, count=8).fill()]

    def run() -> list[str]:
        for cluster in clusters:
            writer = RecordingTable(compiler_of(IPV4))
            assert writer.rebuild(writer.compiler, states_of(cluster)) == {}
            assert writer.audit() == []
            writer.now += 2
            writer.delete_stale_chains()
            assert writer.audit() == []
            writer.close()
        return canonical_rules()

    def fresh() -> list[str]:
        writer = RecordingTable(compiler_of(IPV4))
        writer.rebuild(writer.compiler, states_of(clusters[1]))
        writer.close()
        return canonical_rules()

    assert run_in_network(lab.node, run) == run_in_network(lab.outside, fresh)


def small_states(*names: str) -> ServiceStates:
    tracker = ServiceTracker(node_name=NODE)
    for number, name in enumerate(names):
        tracker.on_service(None, service(name, ip=f"10.96.0.{number + 1}"))
        endpoints = [endpoint(f"10.244.0.{number + 1}"), endpoint(f"10.244.1.{number + 1}")]
        tracker.on_slice(None, endpoint_slice(name, *endpoints))
    tracker.take_changes()
    return tracker.services


def test_transaction_contains_only_the_change(lab: Lab) -> None:
    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        writer.rebuild(writer.compiler, small_states(*(f"s{number}" for number in range(100))))
        writer.texts.clear()
        key = NamespacedName("default", "s0")
        tracker = ServiceTracker(node_name=NODE)
        tracker.on_service(None, service("s0", ip="10.96.0.1"))
        tracker.on_slice(None, endpoint_slice("s0", endpoint("10.244.9.9")))
        tracker.take_changes()
        writer.apply({key: tracker.services[key]})
        [text] = writer.texts
        assert [" ".join(line.split()[:2]) for line in text.splitlines()] == ["add chain", "flush chain", "add rule"]
        writer.texts.clear()
        writer.apply({key: tracker.services[key]})
        assert "".join(writer.texts) == ""
        writer.close()

    run_in_network(lab.node, run)


def test_chains_are_deleted_a_second_after_their_last_reference(lab: Lab) -> None:
    def chains() -> int:
        return run_nft("list", "chains").count(b"default/web")

    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        states = small_states("web")
        writer.rebuild(writer.compiler, states)
        writer.apply({NamespacedName("default", "web"): ()})
        writer.now = 0.9
        writer.delete_stale_chains()
        assert (chains(), writer.has_stale_chains) == (1, True)
        writer.apply(states)  # the service exists again, and its chain must stay
        writer.now = 5.0
        writer.delete_stale_chains()
        assert (chains(), writer.has_stale_chains, writer.audit()) == (1, False, [])
        writer.apply({NamespacedName("default", "web"): ()})
        writer.now = 6.0
        writer.delete_stale_chains()
        assert (chains(), writer.has_stale_chains, writer.audit()) == (0, False, [])
        writer.close()

    run_in_network(lab.node, run)


BROKEN = NamespacedName("default", "broken")


@pytest.mark.parametrize("is_first", [True, False], ids=["first sync", "change"])
def test_rejected_service_does_not_affect_other_services(lab: Lab, is_first: bool) -> None:
    """The transaction as a whole is rejected, so that the service must be found by bisection."""
    states = small_states("a", "b", "broken", "c", "d")

    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        writer.is_rejected = lambda text: "default/broken" in text
        if is_first:
            rejected = writer.rebuild(writer.compiler, states)
        else:
            writer.rebuild(writer.compiler, {})
            rejected = writer.apply(states)
        assert list(rejected) == [BROKEN]
        assert set(writer.services) == set(states) - {BROKEN}
        assert writer.audit() == []
        listing = run_nft("list", "ruleset")
        assert all(b"default/" + name in listing for name in (b"a", b"b", b"c", b"d"))
        assert b"default/broken" not in listing
        writer.close()

    run_in_network(lab.node, run)


@pytest.mark.parametrize("is_first", [True, False], ids=["first sync", "change"])
def test_service_that_cannot_be_compiled_does_not_affect_other_services(lab: Lab, is_first: bool) -> None:
    states = dict(small_states("a", "broken", "c"))
    impossible = EndpointInfo("10.1.2.3", 70000)
    (port,) = states[BROKEN]
    states[BROKEN] = (replace(port, categories=EndpointCategories(cluster=(impossible,), has_any=True)),)

    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        if is_first:
            rejected = writer.rebuild(writer.compiler, states)
        else:
            writer.rebuild(writer.compiler, {})
            rejected = writer.apply(states)
        assert list(rejected) == [BROKEN]
        assert set(writer.services) == set(states) - {BROKEN}
        assert writer.audit() == []
        writer.close()

    run_in_network(lab.node, run)


def test_service_rejected_by_the_kernel_is_identified_without_bisection(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    original = NftSocket.commit

    def commit(self: NftSocket, messages: Any) -> None:
        commits.append(len(messages))
        original(self, messages)

    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        writer.rebuild(writer.compiler, {})
        # Another program has created a base chain with the name of the service chain; no rule can go to a base chain.
        name = small_chain("broken")
        base = "{ type filter hook output priority 5 ; }"
        run_nft("-f", "-", text=f"add chain ip kube-proxy {name} {base}\n")
        writer.is_complete()
        writer._identity = writer._table_identity()
        commits.clear()
        rejected = writer.apply(small_states("a", "broken", "c"))
        assert list(rejected) == [BROKEN]
        assert len(commits) == 2
        writer.close()

    def small_chain(name: str) -> str:
        [compiled] = [compiler_of(IPV4).compile(ports) for key, ports in small_states(name).items()]
        return next(iter(compiled.chains))

    monkeypatch.setattr(NftSocket, "commit", commit)
    run_in_network(lab.node, run)


@pytest.mark.parametrize(
    "damage",
    [
        "flush ruleset",
        "delete table ip kube-proxy",
        "flush chain ip kube-proxy services",
        "delete table ip kube-proxy; add table ip kube-proxy",
        "add chain ip kube-proxy other",
    ],
)
def test_is_complete_detects_changes_by_other_programs(lab: Lab, damage: str) -> None:
    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        states = small_states("web")
        writer.rebuild(writer.compiler, states)
        writer.detect_foreign_change()
        writer.apply(small_states("web", "other"))
        assert not writer.detect_foreign_change()
        assert writer.is_complete()
        run_nft("add", "table", "inet", "others")
        assert writer.detect_foreign_change()
        assert not writer.detect_foreign_change()
        assert writer.is_complete()
        expected = writer.audit()
        run_nft("-f", "-", text=damage.replace("; ", "\n") + "\n")
        assert writer.detect_foreign_change()
        assert not writer.is_complete()
        writer.rebuild(writer.compiler, small_states("web", "other"))
        assert writer.is_complete()
        assert [d for d in writer.audit() if d != "chain other"] == expected == []
        writer.close()

    run_in_network(lab.node, run)


@pytest.mark.parametrize(
    ("damage", "difference"),
    [
        ("flush map ip kube-proxy service-ips", "2 elements of service-ips"),
        ("delete element ip kube-proxy cluster-ips { 10.96.0.1 }", "1 elements of cluster-ips"),
        ("add element ip kube-proxy cluster-ips { 10.96.0.77 }", "1 elements of cluster-ips"),
        ("flush chain ip kube-proxy {chain}", "chain {chain}"),
    ],
)
def test_audit_detects_changes_that_is_complete_does_not(lab: Lab, damage: str, difference: str) -> None:
    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        states = small_states("web", "other")
        writer.rebuild(writer.compiler, states)
        chain = next(iter(compiler_of(IPV4).compile(states[NamespacedName("default", "web")]).chains))
        run_nft("-f", "-", text=damage.replace("{chain}", chain) + "\n")
        assert writer.is_complete()
        assert writer.audit() == [difference.replace("{chain}", chain)]
        writer.rebuild(writer.compiler, states)
        assert writer.audit() == []
        writer.close()

    run_in_network(lab.node, run)


def test_update_static_rules_replaces_node_port_addresses(lab: Lab) -> None:
    def run() -> None:
        writer = RecordingTable(compiler_of(IPV6))
        writer.rebuild(writer.compiler, {})
        all_addresses = compiler_of(IPV6, ProxyConfig(node_port_addresses=()))
        writer.update_static_rules(all_addresses)
        assert writer.is_complete()
        assert writer.audit() == []
        assert b"fib daddr type local" in run_nft("list", "ruleset")
        writer.remove()
        assert run_nft("list", "ruleset") == b""
        writer.close()

    run_in_network(lab.node, run)


def test_service_with_2000_endpoints_is_written(lab: Lab) -> None:
    """The endpoints of such a service do not fit into one netlink message."""
    tracker = ServiceTracker(node_name=NODE)
    tracker.on_service(None, service("web", affinity_s=30))
    tracker.on_service(None, service("other", ip="10.96.0.2"))
    for name in ("web", "other"):
        many = [endpoint(f"10.244.{number >> 8}.{number & 255}", node=NODE) for number in range(2000)]
        tracker.on_slice(None, endpoint_slice(name, *many))
    tracker.take_changes()

    def run() -> None:
        writer = RecordingTable(compiler_of(IPV4))
        assert writer.rebuild(writer.compiler, tracker.services) == {}
        assert writer.audit() == []
        assert run_nft("list", "ruleset").count(b"1999 : ") == 2
        writer.close()

    run_in_network(lab.node, run)


def test_temporary_proxy_does_not_touch_a_table_of_another_program(lab: Lab) -> None:
    def run() -> None:
        temporary = compiler_of(IPV4, ProxyConfig(removes_rules=True))
        for comment in ('{ comment "rules for kube-proxy" ; }', ""):
            run_nft("-f", "-", text=f"add table ip kube-proxy {comment}\n")
            before = run_nft("list", "ruleset")
            table = RecordingTable(temporary)
            with pytest.raises(ForeignTable, match="nft delete table ip kube-proxy"):
                table.rebuild(temporary, {})
            table.remove()
            remove_tables(only_temporary=True)
            assert run_nft("list", "ruleset") == before
            remove_tables()
            assert run_nft("list", "ruleset") == b""
            table.rebuild(temporary, {})
            table.close()
            again = RecordingTable(temporary)  # a second process after the first was killed
            again.rebuild(temporary, {})
            again.close()
            remove_tables(only_temporary=True)
            assert run_nft("list", "ruleset") == b""

    run_in_network(lab.node, run)
