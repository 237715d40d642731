"""Named sets with the addresses of selected pods. Policies with equal selectors share a set."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sampan.machinery.object_key import NamespacedName
from sampan.network.policy.pods import PodDirectory, PodEndpoint, PodSelection
from sampan.network.policy.policy_table import PolicyTable

VERSIONS = (4, 6)


def digest(text: str) -> str:
    """Return the part of a set or chain name that stands for text of a user, which never appears in the table
    itself."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def version_of(address: str) -> int:
    return 6 if ":" in address else 4


@dataclass(frozen=True, slots=True)
class PodSetSpec:
    """The content of a set: addresses of pods, or addresses with those container ports that have one of the names."""

    selection: PodSelection
    ports: frozenset[tuple[str, str]] | None = None
    node: str = ""
    """The node whose pods the set has; empty for the pods of all nodes."""

    @property
    def name(self) -> str:
        text = f"{self.selection} ports {sorted(self.ports) if self.ports is not None else None} node {self.node}"
        return f"{'pods' if self.ports is None else 'ports'}-{digest(text)}"

    def elements(self, pod: PodEndpoint) -> tuple[tuple[int, str], ...]:
        """Return the elements of a selected pod, each with its IP version."""
        if self.node not in ("", pod.node):
            return ()
        if self.ports is None:
            return tuple((version_of(address), address) for address in pod.addresses)
        ports = {(port.protocol, port.number) for port in pod.ports if (port.name, port.protocol) in self.ports}
        return tuple(
            (version_of(address), f"{address} . {protocol} . {number}")
            for address in pod.addresses
            for protocol, number in sorted(ports)
        )


def set_name(name: str, version: int) -> str:
    """Return the name of the set for one IP version."""
    kind, _, mark = name.partition("-")
    return f"{kind}{version}-{mark}"


class _PodSet:
    def __init__(self, spec: PodSetSpec) -> None:
        self.spec = spec
        self.users = 0
        self.members: dict[NamespacedName, tuple[tuple[int, str], ...]] = {}
        self.counts: Counter[tuple[int, str]] = Counter()
        """The number of pods that contribute an element, by element. For a moment two pods may have the same
        address."""


class PodSets:
    """Keeps the sets in use current. A change of a pod costs as much as the number of sets that it may belong to."""

    def __init__(self, *, table: PolicyTable, directory: PodDirectory) -> None:
        self._table, self._directory = table, directory
        self._sets: dict[PodSetSpec, _PodSet] = {}
        self._by_namespace: dict[str, dict[PodSetSpec, _PodSet]] = {}
        """The sets by the namespace that they select. Sets that select namespaces by labels are under ""."""

    def acquire(self, spec: PodSetSpec) -> None:
        """Add a user of a set, and create the set for its first user."""
        pod_set = self._sets.get(spec)
        if pod_set is None:
            pod_set = self._sets[spec] = _PodSet(spec)
            self._by_namespace.setdefault(spec.selection.namespace, {})[spec] = pod_set
            for version in VERSIONS:
                self._table.put_set(set_name(spec.name, version), _declaration(spec, version))
            for pod in self._directory.select(spec.selection):
                self._update(pod_set, pod.key, spec.elements(pod))
        pod_set.users += 1

    def release(self, spec: PodSetSpec) -> None:
        """Remove a user of a set, and remove the set after its last user."""
        pod_set = self._sets[spec]
        pod_set.users -= 1
        if pod_set.users == 0:
            del self._sets[spec]
            sets = self._by_namespace[spec.selection.namespace]
            del sets[spec]
            if not sets:
                del self._by_namespace[spec.selection.namespace]
            for version in VERSIONS:
                self._table.remove_set(set_name(spec.name, version))

    def on_pod(self, key: NamespacedName, pod: PodEndpoint | None) -> None:
        """Update the membership of a pod that was changed in the directory; None if it is gone."""
        labels = self._directory.namespaces.get(key.namespace)
        for pod_set in (*self._by_namespace.get(key.namespace, {}).values(), *self._by_namespace.get("", {}).values()):
            self._sync(pod_set, key, pod, labels)

    def on_namespace(self, name: str) -> None:
        """Update the membership of the pods of a namespace whose labels were changed in the directory."""
        labels = self._directory.namespaces.get(name)
        for pod_set in self._by_namespace.get("", {}).values():
            for pod in self._directory.list_in_namespace(name):
                self._sync(pod_set, pod.key, pod, labels)

    def _sync(
        self, pod_set: _PodSet, key: NamespacedName, pod: PodEndpoint | None, labels: Mapping[str, str] | None
    ) -> None:
        selection = pod_set.spec.selection
        is_member = (
            pod is not None and selection.covers_namespace(key.namespace, labels) and selection.pods.matches(pod.labels)
        )
        self._update(pod_set, key, pod_set.spec.elements(pod) if is_member and pod is not None else ())

    def _update(self, pod_set: _PodSet, key: NamespacedName, elements: tuple[tuple[int, str], ...]) -> None:
        old = pod_set.members.get(key, ())
        if old == elements:
            return
        if elements:
            pod_set.members[key] = elements
        else:
            del pod_set.members[key]
        for item in elements:
            pod_set.counts[item] += 1
            self._table.put_element(set_name(pod_set.spec.name, item[0]), item[1])
        for item in old:
            pod_set.counts[item] -= 1
            if not pod_set.counts[item]:
                del pod_set.counts[item]
                self._table.remove_element(set_name(pod_set.spec.name, item[0]), item[1])


def _declaration(spec: PodSetSpec, version: int) -> str:
    ports = " . inet_proto . inet_service" if spec.ports is not None else ""
    return f"set {{ type ipv{version}_addr{ports}; }}"
