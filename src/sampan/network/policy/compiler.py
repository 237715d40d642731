"""The incremental compiler: NetworkPolicies, pods and namespaces in, changes of an nftables table out. Pure.

The table has two base chains in the forward hook, one for each direction: an accepted packet leaves the first one and
still has to pass the second. They look up the address of a local pod in a verdict map (`pod-egress4`, `pod-ingress4`
and the same for IPv6). Its element leads to a chain for the policies of the pod, which pods with equal policies share
and which drops what none of its policies accepts. Each policy has a chain for each direction. The peers of its rules
are named sets of addresses, so that a change of a pod changes elements and no rule. A pod that no policy selects has no
element, and without elements there are no base chains.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.object_key import NamespacedName
from sampan.network.policy.pod_sets import VERSIONS, PodSets, digest, version_of
from sampan.network.policy.pods import PodDirectory, PodEndpoint, canonical, with_addresses
from sampan.network.policy.policy_chains import FAMILIES, MAX_RULES, PolicyChain, StaticSet, policy_chain
from sampan.network.policy.policy_spec import DIRECTIONS, EGRESS, INGRESS, PolicySpec
from sampan.network.policy.policy_table import PolicyTable, TableChain

log = logging.getLogger(__name__)

_NEIGHBOR_DISCOVERY: Final = (
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } accept"
)
_PRIORITIES: Final = {EGRESS: 1, INGRESS: 2}
_FIELDS: Final = {EGRESS: "saddr", INGRESS: "daddr"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    node: str
    """The name of the node."""
    table: str = "sampan-netpol"
    bridge: str = ""
    """The bridge of the node's pods. A packet that arrives from it does not come from the node, even if its source is
    an address of the node."""
    node_addresses: Sequence[str] = ()
    """Addresses from which the kubelet reaches pods through the forward hook. Traffic of processes in the network
    namespace of the node does not pass that hook."""


_ChainKey = tuple[NamespacedName, str]
"""A policy and a direction."""


@dataclass(frozen=True, slots=True)
class _PodIsolation:
    """The elements of a local pod in the verdict maps."""

    addresses: tuple[str, ...] = ()
    actions: Mapping[str, str] = field(default_factory=dict)
    """The values of the elements by direction."""
    combinations: tuple[tuple[_ChainKey, ...], ...] = ()
    """The policy chains that the pod uses, for each direction that has rules."""


class PolicyCompiler:
    """Keeps the nftables table `table` in step with policies, pods and namespaces. The cost of each method depends only
    on what it changes."""

    def __init__(self, config: PolicyConfig) -> None:
        self.table = PolicyTable(config.table)
        self._config = config
        self._directory = PodDirectory()
        """The pods with their effective addresses."""
        self._pod_sets = PodSets(table=self.table, directory=self._directory)
        self._reported: dict[NamespacedName, PodEndpoint] = {}
        """The pods as the API server has them."""
        self._policies: dict[str, dict[NamespacedName, PolicySpec]] = {}
        """The policies by namespace."""
        self._sandboxes: dict[str, tuple[str, ...]] = {}
        """The addresses that the pod network has assigned, by the uid of the sandbox."""
        self._released: set[str] = set()
        """Sandboxes that are gone, whose pods may still report the former addresses."""
        self._local: dict[str, NamespacedName] = {}
        """The pods of this node by the uid of the sandbox."""
        self._isolations: dict[str, _PodIsolation] = {}
        """The elements of each sandbox in the verdict maps, by the uid of the sandbox."""
        self._owners: dict[str, str] = {}
        """The sandbox to which the elements of an address belong, by address."""
        self._chains: dict[_ChainKey, PolicyChain] = {}
        self._users: dict[str | _ChainKey, int] = {}
        """How often combination chains, policy chains and static sets are used."""
        self._make_base_sets()

    # -- events ------------------------------------------------------------------------------------------------------

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace; None if it was deleted."""
        if labels == self._directory.namespaces.get(name):
            return
        if labels is None:
            del self._directory.namespaces[name]
        else:
            self._directory.namespaces[name] = labels
        self._pod_sets.on_namespace(name)

    def put_policy(self, key: NamespacedName, spec: PolicySpec | None) -> None:
        """Set a policy; None if it was deleted."""
        if self._policies.get(key.namespace, {}).get(key) == spec:
            return
        policies = self._policies.setdefault(key.namespace, {})
        if spec is None:
            del policies[key]
        else:
            policies[key] = spec
            for direction in DIRECTIONS:
                if (key, direction) in self._chains and spec.rules.get(direction):
                    self._write_chain((key, direction), spec)
        for uid, pod in list(self._local.items()):
            if pod.namespace == key.namespace:
                self._sync(uid)
        if not policies:
            del self._policies[key.namespace]

    def put_pod(self, key: NamespacedName, pod: PodEndpoint | None) -> None:
        """Set a pod; None if it was deleted or uses the network of its node."""
        old = self._reported.get(key)
        if old == pod:
            return
        if pod is None:
            del self._reported[key]
        else:
            self._reported[key] = pod
        if old is not None and (pod is None or pod.uid != old.uid):
            self._released -= {old.uid, old.static_uid}
        self._refresh(key)

    def attach(self, uid: str, addresses: Iterable[str]) -> None:
        """Record the addresses of a sandbox. Until its pod is known, all of its traffic is dropped."""
        self._released.discard(uid)
        self._sandboxes[uid] = canonical(addresses)
        self._on_sandbox(uid)

    def detach(self, uid: str) -> None:
        """Forget a sandbox. Its pod has no addresses from now on, whatever its status says."""
        self._sandboxes.pop(uid, None)
        if self._directory.find_by_sandbox(uid) is not None:
            self._released.add(uid)
        self._on_sandbox(uid)

    def policy_chains(self) -> dict[str, NamespacedName]:
        """Return the chains of policies by name, with their policies."""
        return {_chain_name(key): key[0] for key in self._chains}

    def pod_of(self, uid: str) -> NamespacedName | None:
        """Return the pod of a sandbox, or None if it is not known."""
        pod = self._directory.find_by_sandbox(uid)
        return pod.key if pod is not None else None

    def namespace_names(self) -> list[str]:
        return list(self._directory.namespaces)

    def pod_keys(self) -> list[NamespacedName]:
        return list(self._reported)

    def policy_keys(self) -> list[NamespacedName]:
        return [key for policies in self._policies.values() for key in policies]

    # -- local pods --------------------------------------------------------------------------------------------------

    def _on_sandbox(self, uid: str) -> None:
        pod = self._directory.find_by_sandbox(uid)
        if pod is not None:
            self._refresh(pod.key)
        self._sync(uid)

    def _refresh(self, key: NamespacedName) -> None:
        """Update the pod sets and elements that depend on a pod, after its object or its sandbox has changed."""
        old, reported = self._directory.get(key), self._reported.get(key)
        pod = with_addresses(reported, self._addresses(reported)) if reported is not None else None
        if pod == old:
            return
        if pod is None:
            self._directory.remove(key)
        else:
            self._directory.put(pod)
        self._pod_sets.on_pod(key, pod)
        for uid in {self._sandbox_of(item) for item in (old, pod) if item is not None}:
            self._sync(uid)

    def _addresses(self, pod: PodEndpoint) -> tuple[str, ...]:
        uid = self._sandbox_of(pod)
        if uid in self._sandboxes:
            return self._sandboxes[uid]
        return () if uid in self._released else pod.addresses

    def _sandbox_of(self, pod: PodEndpoint) -> str:
        is_static = pod.static_uid in self._sandboxes or pod.static_uid in self._released
        return pod.static_uid if is_static and pod.uid not in self._sandboxes else pod.uid

    def _sync(self, uid: str) -> None:
        """Update the elements of a sandbox to those that its pod requires."""
        pod = self._directory.find_by_sandbox(uid)
        if pod is not None and uid != self._sandbox_of(pod):
            pod = None
        is_local = uid in self._sandboxes or (pod is not None and pod.node == self._config.node)
        if pod is not None and is_local:
            self._local[uid] = pod.key
        else:
            self._local.pop(uid, None)
        old, new = (
            self._isolations.get(uid, _PodIsolation()),
            self._isolation(uid, pod) if is_local else _PodIsolation(),
        )
        if new == old:
            return
        self._acquire(new)
        self._write_elements(uid, old, new)
        if new.addresses:
            self._isolations[uid] = new
        else:
            self._isolations.pop(uid, None)
        self._release(old)
        self._sync_base_chains()

    def _isolation(self, uid: str, pod: PodEndpoint | None) -> _PodIsolation:
        if pod is None:
            return _PodIsolation(self._sandboxes[uid], dict.fromkeys(DIRECTIONS, "drop"))
        policies = self._policies.get(pod.key.namespace, {})
        selected = {key: spec for key, spec in policies.items() if spec.selection.pods.matches(pod.labels)}
        actions: dict[str, str] = {}
        combinations: list[tuple[_ChainKey, ...]] = []
        for direction in DIRECTIONS:
            if any(direction in spec.rules for spec in selected.values()):
                keys = tuple(sorted((key, direction) for key, spec in selected.items() if spec.rules.get(direction)))
                actions[direction] = f"goto {_combination_names[keys]}" if keys else "drop"
                if keys:
                    combinations.append(keys)
        return (
            _PodIsolation(pod.addresses, actions, tuple(combinations)) if actions and pod.addresses else _PodIsolation()
        )

    def _write_elements(self, uid: str, old: _PodIsolation, new: _PodIsolation) -> None:
        for address in old.addresses:
            if address not in new.addresses and self._owners.get(address) == uid:
                self._write_address(address, {})
                del self._owners[address]
        for address in new.addresses:
            self._owners[address] = uid
            self._write_address(address, new.actions)

    def _write_address(self, address: str, actions: Mapping[str, str]) -> None:
        version = version_of(address)
        for direction in DIRECTIONS:
            if direction in actions:
                self.table.put_element(f"pod-{direction}{version}", address, actions[direction])
            else:
                self.table.remove_element(f"pod-{direction}{version}", address)
        if actions:
            self.table.put_element(f"same-pod{version}", f"{address} . {address}")
        else:
            self.table.remove_element(f"same-pod{version}", f"{address} . {address}")

    # -- chains ------------------------------------------------------------------------------------------------------

    def _acquire(self, isolation: _PodIsolation) -> None:
        """Add a user to combinations of policies.

        The policies of a combination count it as one user, however many pods use it. Otherwise a change of a policy
        would cost as much as the number of pods times the number of policies of a namespace.
        """
        for keys in isolation.combinations:
            name = _combination_names[keys]
            if self._count(name, 1) > 1:
                continue
            for key in keys:
                if self._count(key, 1) == 1:
                    self._write_chain(key, self._policies[key[0].namespace][key[0]])
            self.table.put_chain(name, TableChain([*(f"jump {_chain_name(key)}" for key in keys), "drop"]))

    def _release(self, isolation: _PodIsolation) -> None:
        for keys in isolation.combinations:
            name = _combination_names[keys]
            if self._count(name, -1):
                continue
            self.table.remove_chain(name)
            for key in keys:
                if self._count(key, -1) == 0:
                    self._release_sets(self._chains.pop(key))
                    self.table.remove_chain(_chain_name(key))

    def _write_chain(self, key: _ChainKey, spec: PolicySpec) -> None:
        old, new = self._chains.get(key), policy_chain(spec, key[1], self._config.node)
        if new.is_cut:
            log.warning(
                "network policy %s has more than %d %s rules: the others are ignored", key[0], MAX_RULES, key[1]
            )
        for pod_set in new.pod_sets:
            self._pod_sets.acquire(pod_set)
        for static_set in new.static_sets:
            self._acquire_static(static_set)
        self._chains[key] = new
        self.table.put_chain(_chain_name(key), TableChain(new.rules))
        if old is not None:
            self._release_sets(old)

    def _acquire_static(self, static_set: StaticSet) -> None:
        if self._count(static_set.name, 1) == 1:
            self.table.put_set(static_set.name, static_set.declaration)
            for element in static_set.elements:
                self.table.put_element(static_set.name, element)

    def _release_sets(self, chain: PolicyChain) -> None:
        for pod_set in chain.pod_sets:
            self._pod_sets.release(pod_set)
        for static_set in chain.static_sets:
            if self._count(static_set.name, -1) == 0:
                self.table.remove_set(static_set.name)

    def _count(self, item: str | _ChainKey, step: int) -> int:
        count = self._users.get(item, 0) + step
        if count:
            self._users[item] = count
        else:
            del self._users[item]
        return count

    # -- base --------------------------------------------------------------------------------------------------------

    def _make_base_sets(self) -> None:
        for version in VERSIONS:
            for direction in DIRECTIONS:
                self.table.put_set(f"pod-{direction}{version}", f"map {{ type ipv{version}_addr : verdict; }}")
            self.table.put_set(f"same-pod{version}", f"set {{ type ipv{version}_addr . ipv{version}_addr; }}")
            self.table.put_set(f"node{version}", f"set {{ type ipv{version}_addr; }}")
        for address in canonical(self._config.node_addresses):
            self.table.put_element(f"node{version_of(address)}", address)

    def _sync_base_chains(self) -> None:
        for direction in DIRECTIONS:
            if self._isolations:
                self.table.put_chain(direction, self._base_chain(direction))
            else:
                self.table.remove_chain(direction)

    def _base_chain(self, direction: str) -> TableChain:
        """Return the chain that every forwarded packet passes.

        Link-local addresses are not forwarded by routers, but by bridges, where pods could use them to evade policies.
        """
        rules = ["ct state established,related accept", _NEIGHBOR_DISCOVERY]
        if direction == INGRESS:
            not_from_pods = f'iifname != "{self._config.bridge}" ' if self._config.bridge else ""
            rules += [f"{not_from_pods}{FAMILIES[version]} saddr @node{version} accept" for version in VERSIONS]
        for version in VERSIONS:
            ip = FAMILIES[version]
            rules.append(f"{ip} saddr . {ip} daddr @same-pod{version} accept")
            rules.append(f"{ip} {_FIELDS[direction]} vmap @pod-{direction}{version}")
        rules += ["ip6 saddr fe80::/10 drop", "ip6 daddr fe80::/10 drop"]
        hook = f"type filter hook forward priority filter + {_PRIORITIES[direction]}; policy accept;"
        return TableChain(rules, hook)


def _chain_name(key: _ChainKey) -> str:
    return _chain_names[key]


def _make_chain_name(key: _ChainKey) -> str:
    return f"{key[1]}-{digest(str(key[0]))}"


_chain_names = BoundedCache(_make_chain_name, max_entries=1 << 14, max_bytes=16 << 20)


def _make_combination_name(keys: tuple[_ChainKey, ...]) -> str:
    return f"pods-{keys[0][1]}-{digest(' '.join(map(_chain_name, keys)))}"


_combination_names = BoundedCache(_make_combination_name, max_entries=128, max_entry_bytes=64 << 10)
