"""The parts of pods and namespaces that network policies depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import NamedTuple

from sampan.api.selectors.labels import Selector
from sampan.api.semantics.pod_references import CONFIG_HASH, is_mirror_pod
from sampan.api.semantics.pods import is_terminal, long_running_containers
from sampan.api.types.core_v1 import Pod
from sampan.machinery.object_key import NamespacedName, key_of


class NamedPort(NamedTuple):
    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEndpoint:
    """A pod with its own network namespace. Two equal endpoints are the same for every policy."""

    uid: str
    static_uid: str
    """The uid of the static pod if this is a mirror pod. The kubelet creates the sandbox with that uid."""
    key: NamespacedName
    node: str
    labels: Mapping[str, str]
    addresses: tuple[str, ...]
    ports: frozenset[NamedPort]


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods that a policy or a peer selects: those of one namespace, or of namespaces by their labels."""

    namespace: str
    """The namespace; empty if `namespaces` selects them."""
    namespaces: Selector
    pods: Selector

    def covers_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether pods of a namespace may match; a namespace that does not exist has no labels (None)."""
        if self.namespace:
            return name == self.namespace
        return labels is not None and self.namespaces.matches(labels)

    def __str__(self) -> str:
        scope = f"namespace {self.namespace}" if self.namespace else f"namespaces {self.namespaces!r}"
        return f"{scope} pods {self.pods!r}"


def endpoint_of(pod: Pod) -> PodEndpoint | None:
    """Return the endpoint of a pod, or None if the pod uses the network of its node, to which policies do not apply.

    The addresses of a terminated pod may belong to another pod by now.
    """
    if pod.spec.hostNetwork:
        return None
    return PodEndpoint(
        uid=pod.metadata.uid,
        static_uid=pod.metadata.annotations.get(CONFIG_HASH, "") if is_mirror_pod(pod) else "",
        key=key_of(pod),
        node=pod.spec.nodeName,
        labels=pod.metadata.labels,
        addresses=() if is_terminal(pod) else canonical(item.ip for item in pod.status.podIPs),
        ports=frozenset(_named_ports(pod)),
    )


def _named_ports(pod: Pod) -> Iterator[NamedPort]:
    for container in long_running_containers(pod.spec):
        for port in container.ports:
            if port.name:
                yield NamedPort(port.name, (port.protocol or "TCP").lower(), port.containerPort)


def canonical(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses in the notation of nft."""
    return tuple(str(ip_address(address)) for address in addresses if address)


class PodDirectory:
    """All pods and namespaces of the cluster, with indexes. Pure data."""

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._pods: dict[NamespacedName, PodEndpoint] = {}
        self._keys: dict[str, NamespacedName] = {}
        self._static_keys: dict[str, NamespacedName] = {}
        self._by_namespace: dict[str, dict[NamespacedName, PodEndpoint]] = {}

    def get(self, key: NamespacedName) -> PodEndpoint | None:
        return self._pods.get(key)

    def find_by_sandbox(self, uid: str) -> PodEndpoint | None:
        """Return the pod for which the kubelet creates a sandbox with this uid.

        The uid of a pod takes precedence over the annotation of a mirror pod, which users can write.
        """
        key = self._keys.get(uid) or self._static_keys.get(uid)
        return self._pods[key] if key is not None else None

    def list_in_namespace(self, name: str) -> Iterable[PodEndpoint]:
        return self._by_namespace.get(name, {}).values()

    def put(self, endpoint: PodEndpoint) -> None:
        self.remove(endpoint.key)
        self._pods[endpoint.key] = endpoint
        self._keys[endpoint.uid] = endpoint.key
        if endpoint.static_uid:
            self._static_keys[endpoint.static_uid] = endpoint.key
        self._by_namespace.setdefault(endpoint.key.namespace, {})[endpoint.key] = endpoint

    def remove(self, key: NamespacedName) -> None:
        old = self._pods.pop(key, None)
        if old is not None:
            for keys, uid in ((self._keys, old.uid), (self._static_keys, old.static_uid)):
                if keys.get(uid) == key:
                    del keys[uid]
            pods = self._by_namespace[key.namespace]
            del pods[key]
            if not pods:
                del self._by_namespace[key.namespace]

    def select(self, selection: PodSelection) -> Iterator[PodEndpoint]:
        names = [selection.namespace] if selection.namespace else list(self.namespaces)
        for name in names:
            if selection.covers_namespace(name, self.namespaces.get(name)):
                yield from (pod for pod in self.list_in_namespace(name) if selection.pods.matches(pod.labels))


def with_addresses(endpoint: PodEndpoint, addresses: tuple[str, ...]) -> PodEndpoint:
    return endpoint if endpoint.addresses == addresses else replace(endpoint, addresses=addresses)
