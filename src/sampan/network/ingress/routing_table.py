"""The routing table, which decides which backend serves a request and which secret has the certificate of a host. Pure.

The most specific host decides: the host itself, then a wildcard that stands for its first label, then rules without a
host. Among the paths of the host an exact one wins, then the longest prefix; prefixes end at element boundaries. If
several Ingresses have the same host and path, the oldest one wins.

Paths are compared as they are on the wire. Nothing is decoded or normalized. Requests for paths that a backend could
normalize to another one, such as `/public/../admin` and `/public%2f..%2fadmin`, are refused before (`request_target`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.networking_v1 import Ingress, IngressBackend, IngressRule
from sampan.machinery.object_key import NamespacedName, key_of

EXACT = "Exact"
ANY_HOST = ""


class BackendServicePort(NamedTuple):
    """A port of a service. `service` is empty for a backend of another kind, which nothing can serve."""

    namespace: str
    service: str
    port: str | int
    """The name or the number of the port of the service."""


class IngressRoute(NamedTuple):
    ingress: NamespacedName
    backend: BackendServicePort


class PathRule(NamedTuple):
    is_exact: bool
    path: str
    """An exact path, or a prefix without the slash at its end."""
    backend: BackendServicePort


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressRules:
    """The rules and secrets that an Ingress contributes to the routing table."""

    key: NamespacedName
    age: tuple[str, NamespacedName]
    """The sort key of Ingresses, by which the oldest one comes first."""
    hosts: Mapping[str, Sequence[PathRule]]
    """The rules of each host. An Ingress without rules has an empty list of rules for any host, so that its default
    backend applies."""
    default: BackendServicePort | None = None
    """The backend of the paths that no rule matches."""
    secrets: Mapping[str, NamespacedName] = field(default_factory=dict)
    """The secrets with the certificates of hosts."""


def rules_of(ingress: Ingress) -> IngressRules:
    spec, key = ingress.spec, key_of(ingress)
    hosts: dict[str, list[PathRule]] = {}
    for rule in spec.rules:
        hosts.setdefault(rule.host.lower(), []).extend(_path_rules(rule, key.namespace))
    return IngressRules(
        key=key,
        age=(str(ingress.metadata.creationTimestamp or ""), key),
        hosts=hosts or {ANY_HOST: []},
        default=_backend(spec.defaultBackend, key.namespace) if spec.defaultBackend is not None else None,
        secrets=_secrets_of(ingress, hosts),
    )


def _secrets_of(ingress: Ingress, hosts: Iterable[str]) -> dict[str, NamespacedName]:
    """Return the secret of each host.

    A TLS entry without hosts applies to the hosts of the rules. Only the first such entry counts.
    """
    secrets: dict[str, NamespacedName] = {}
    has_all_hosts = False
    for tls in ingress.spec.tls:
        if tls.secretName and (tls.hosts or not has_all_hosts):
            has_all_hosts = has_all_hosts or not tls.hosts
            for host in tls.hosts or hosts:
                secrets.setdefault(host.lower(), NamespacedName(ingress.metadata.namespace, tls.secretName))
    return secrets


def _path_rules(rule: IngressRule, namespace: str) -> Iterable[PathRule]:
    for path in (rule.http.paths if rule.http is not None else None) or ():
        backend = _backend(path.backend, namespace)
        if path.pathType == EXACT:
            yield PathRule(is_exact=True, path=path.path, backend=backend)
        else:
            yield PathRule(is_exact=False, path=path.path.rstrip("/"), backend=backend)


def _backend(backend: IngressBackend, namespace: str) -> BackendServicePort:
    if backend.service is None:
        return BackendServicePort(namespace, "", 0)
    port = backend.service.port
    return BackendServicePort(namespace, backend.service.name, port.name or port.number)


class HostRoutes:
    """The routes of one host."""

    def __init__(self, host: str, ingresses: Iterable[IngressRules]) -> None:
        """`ingresses` are those with rules for the host, the oldest one first."""
        self.default: IngressRoute | None = None
        self._exact: dict[str, IngressRoute] = {}
        self._prefixes: dict[str, IngressRoute] = {}
        for ingress in ingresses:
            if self.default is None and ingress.default is not None:
                self.default = IngressRoute(ingress.key, ingress.default)
            for rule in ingress.hosts[host]:
                routes = self._exact if rule.is_exact else self._prefixes
                routes.setdefault(rule.path, IngressRoute(ingress.key, rule.backend))
        self._depths = sorted({prefix.count("/") for prefix in self._prefixes}, reverse=True)
        """The numbers of elements of the prefixes: only these need to be looked up."""

    def match(self, path: str) -> IngressRoute | None:
        """Return the route of a path; None if no rule matches."""
        if (route := self._exact.get(path)) is not None:
            return route
        if not self._depths:
            return None
        ends = _element_ends(path, self._depths[0])
        for depth in self._depths:
            if depth < len(ends) and (route := self._prefixes.get(path[: ends[depth]])) is not None:
                return route
        return None


def _element_ends(path: str, maximum: int) -> list[int]:
    """Return the positions at which the first `maximum` elements of a path end, preceded by 0 for no element."""
    ends, start = [0], 0
    while len(ends) <= maximum and start < len(path):
        end = path.find("/", start + 1)
        start = end if end >= 0 else len(path)
        ends.append(start)
    return ends


class RoutingTable:
    """The rules of all Ingresses. A change costs as much as the rules of the hosts that it touches."""

    def __init__(self) -> None:
        self._ingresses: dict[NamespacedName, IngressRules] = {}
        self._of_host: dict[str, dict[NamespacedName, IngressRules]] = {}
        """The Ingresses with rules or secrets for a host."""
        self._routes: dict[str, HostRoutes] = {}
        self._secrets: dict[str, NamespacedName] = {}

    def __contains__(self, key: NamespacedName) -> bool:
        return key in self._ingresses

    def put(self, rules: IngressRules) -> None:
        touched = self._take_out(rules.key)
        self._ingresses[rules.key] = rules
        for host in (*rules.hosts, *rules.secrets):
            self._of_host.setdefault(host, {})[rules.key] = rules
            touched.add(host)
        self._build(touched)

    def remove(self, key: NamespacedName) -> None:
        self._build(self._take_out(key))

    def route(self, host: str, path: str) -> IngressRoute | None:
        """Return the route of a request. `host` is in lower case and without a port, `path` without a query."""
        fallback = self._routes.get(ANY_HOST)
        for name in (host, wildcard_of(host), ANY_HOST):
            if name and (routes := self._routes.get(name)) is not None:
                return routes.match(path) or routes.default or (fallback.default if fallback is not None else None)
        return (fallback.match(path) or fallback.default) if fallback is not None else None

    def secret_of(self, host: str) -> NamespacedName | None:
        """Return the secret with the certificate of a host."""
        return self._secrets.get(host) or self._secrets.get(wildcard_of(host)) or self._secrets.get(ANY_HOST)

    def _take_out(self, key: NamespacedName) -> set[str]:
        """Remove an Ingress, and return the hosts whose routes must be built again."""
        rules = self._ingresses.pop(key, None)
        if rules is None:
            return set()
        touched = {*rules.hosts, *rules.secrets}
        for host in touched:
            del self._of_host[host][key]
        return touched

    def _build(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            ordered = sorted(self._of_host[host].values(), key=lambda rules: rules.age)
            if not ordered:
                del self._of_host[host]
            self._routes.pop(host, None)
            self._secrets.pop(host, None)
            if with_rules := [rules for rules in ordered if host in rules.hosts]:
                self._routes[host] = HostRoutes(host, with_rules)
            if secrets := [rules.secrets[host] for rules in ordered if host in rules.secrets]:
                self._secrets[host] = secrets[0]


def wildcard_of(host: str) -> str:
    """Return the wildcard that stands for the first label of a host; empty if it has only one label."""
    label, _, remainder = host.partition(".")
    return f"*.{remainder}" if label and remainder else ""
