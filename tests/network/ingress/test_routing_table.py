"""The routing table: examples of the documentation of Kubernetes, and a brute-force oracle."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.types.networking_v1 import Ingress, IngressTLS
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.ingress.routing_table import HostRoutes, RoutingTable, rules_of
from tests.input_cost import is_quick
from tests.network.ingress.objects import PathSpec, ingress


def table_of(*ingresses: Ingress) -> RoutingTable:
    table = RoutingTable()
    for item in ingresses:
        table.put(rules_of(item))
    return table


def service_of(table: RoutingTable, host: str, path: str) -> str:
    route = table.route(host, path)
    return route.backend.service if route is not None else ""


@pytest.mark.parametrize(
    ("kind", "rule", "path", "matches"),
    [
        ("Prefix", "/", "/any/path", True),
        ("Exact", "/foo", "/foo", True),
        ("Exact", "/foo", "/bar", False),
        ("Exact", "/foo", "/foo/", False),
        ("Exact", "/foo/", "/foo", False),
        ("Exact", "/foo", "/FOO", False),
        ("Prefix", "/foo", "/foo", True),
        ("Prefix", "/foo", "/foo/", True),
        ("Prefix", "/foo/", "/foo", True),
        ("Prefix", "/foo/", "/foo/", True),
        ("Prefix", "/aaa/bb", "/aaa/bbb", False),
        ("Prefix", "/aaa/bbb", "/aaa/bbb", True),
        ("Prefix", "/aaa/bbb/", "/aaa/bbb", True),
        ("Prefix", "/aaa/bbb", "/aaa/bbb/", True),
        ("Prefix", "/aaa/bbb", "/aaa/bbb/ccc", True),
        ("Prefix", "/aaa/bbb", "/aaa/bbbxyz", False),
        ("Prefix", "/aaa/bbb", "/aaa//bbb", False),
        ("ImplementationSpecific", "/foo", "/foo/bar", True),
        ("ImplementationSpecific", "", "/foo/bar", True),
        ("Prefix", "/admin", "/public/../admin", False),
        ("Prefix", "/admin", "/%61dmin", False),
        ("Prefix", "/admin", "/x/..%2f..%2fadmin", False),
        ("Prefix", "/a/b", "/a%2fb", False),
        ("Prefix", "/admin", "//admin", False),
    ],
)
def test_path_types(kind: str, rule: str, path: str, matches: bool) -> None:
    table = table_of(ingress("web", {"a.example": [(rule, kind, "web")]}))
    assert service_of(table, "a.example", path) == ("web" if matches else "")


def test_path_with_dot_segments_or_escapes_does_not_match_another_rule() -> None:
    table = table_of(ingress("web", {"": [("/public", "Prefix", "public"), ("/admin", "Prefix", "admin")]}))
    for path in ("/public/../admin", "/public/%2e%2e/admin", "/public/..%2fadmin", "/public//admin"):
        assert service_of(table, "", path) == "public"


def test_exact_path_precedes_longest_prefix() -> None:
    paths = [("/", "Prefix", "root"), ("/a", "Prefix", "a"), ("/a/b", "Prefix", "ab"), ("/a/b", "Exact", "exact")]
    table = table_of(ingress("web", {"": paths}))
    expected = {"/": "root", "/x": "root", "/a/x": "a", "/a/b/": "ab", "/a/b": "exact", "/a/bc": "a"}
    assert {path: service_of(table, "h", path) for path in expected} == expected


def test_exact_host_precedes_wildcard_and_empty_host() -> None:
    table = table_of(
        ingress("exact", {"foo.bar.com": [("/e", "Prefix", "exact")]}),
        ingress("wild", {"*.bar.com": [("/", "Prefix", "wild")]}),
        ingress("any", {"": [("/any", "Prefix", "any")]}),
    )
    assert service_of(table, "foo.bar.com", "/e") == "exact"
    assert service_of(table, "foo.bar.com", "/other") == "", "the rules of less specific hosts are not used"
    assert service_of(table, "x.bar.com", "/e") == "wild"
    for host in ("x.y.bar.com", "bar.com", "", "other"):
        assert service_of(table, host, "/any") == "any"
        assert service_of(table, host, "/e") == ""


def test_default_backends() -> None:
    table = table_of(ingress("catch", {}, default="catch"))
    assert service_of(table, "any", "/x") == "catch"
    table.put(rules_of(ingress("web", {"a.example": [("/a", "Prefix", "web")]})))
    assert [service_of(table, "a.example", path) for path in ("/a", "/b")] == ["web", "catch"]
    table.put(rules_of(ingress("web", {"a.example": [("/a", "Prefix", "web")], "b.example": []}, default="own")))
    assert [service_of(table, "a.example", path) for path in ("/a", "/b")] == ["web", "own"]
    assert service_of(table, "b.example", "/") == "own", "a rule without paths"
    assert service_of(table, "c.example", "/b") == "catch"
    table.remove(NamespacedName("default", "catch"))
    assert service_of(table, "c.example", "/b") == ""


def test_the_oldest_ingress_wins() -> None:
    new = ingress("a", {"h.example": [("/", "Prefix", "new")]}, created=2, secrets={"h.example": "new"})
    old = ingress("b", {"h.example": [("/", "Prefix", "old")]}, created=1, secrets={"h.example": "old"})
    for items in ((new, old), (old, new)):
        table = table_of(*items)
        assert service_of(table, "h.example", "/") == "old"
        assert table.secret_of("h.example") == ("default", "old")
    table.remove(key_of(old))
    assert service_of(table, "h.example", "/") == "new"


def test_tls_secret_of_a_host() -> None:
    web = ingress("web", {"a.example": [("/", "Prefix", "web")]}, secrets={"": "rules", "*.b.example": "wild"})
    table = table_of(web)
    assert table.secret_of("a.example") == ("default", "rules"), (
        "a TLS entry without hosts applies to the hosts of the rules"
    )
    assert table.secret_of("x.b.example") == ("default", "wild")
    assert table.secret_of("x.y.b.example") is None
    table.remove(key_of(web))
    assert table.secret_of("a.example") is None


HOSTS = ("", "a.example", "b.example", "*.example", "x.a.example", "*.a.example")
ELEMENTS = st.sampled_from(["a", "b", "ab", "..", "%2f", ""])
PATHS = st.lists(ELEMENTS, max_size=3).map(lambda parts: "/" + "/".join(parts))
RULES = st.dictionaries(
    st.sampled_from(HOSTS),
    st.lists(
        st.tuples(PATHS, st.sampled_from(["Exact", "Prefix", "ImplementationSpecific"]), st.sampled_from("pqrs")),
        max_size=4,
    ),
    max_size=3,
)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("klmn"),
        st.none() | RULES,
        st.integers(min_value=1, max_value=5),
        st.sampled_from(["", "d", "e"]),
    ),
    max_size=8,
)


def oracle(ingresses: Sequence[Ingress], host: str, path: str) -> str:
    """Return the service for a request, by a search through every rule of every Ingress."""
    ordered = sorted(ingresses, key=lambda item: (item.metadata.creationTimestamp or "", item.metadata.name))

    def default_of(name: str) -> str:
        for item in ordered:
            hosts = [rule.host for rule in item.spec.rules] or [""]
            if name in hosts and item.spec.defaultBackend is not None and item.spec.defaultBackend.service is not None:
                return item.spec.defaultBackend.service.name
        return ""

    wildcard = "*." + host.split(".", 1)[1] if "." in host else ""
    for name in dict.fromkeys((host, wildcard, "")):
        if not any(name in ([rule.host for rule in item.spec.rules] or [""]) for item in ordered):
            continue
        best, service = (-1, -1), ""
        for item in ordered:
            for rule in item.spec.rules:
                for entry in (rule.http.paths or () if rule.http is not None else ()) if rule.host == name else ():
                    elements = entry.path.rstrip("/").split("/")
                    is_exact = entry.pathType == "Exact"
                    if is_exact:
                        rank = (1, 0) if path == entry.path else (-1, -1)
                    else:
                        rank = (0, len(elements)) if path.split("/")[: len(elements)] == elements else (-1, -1)
                    if rank > best:
                        assert entry.backend.service is not None
                        best, service = rank, entry.backend.service.name
        return service or default_of(name) or default_of("")
    return ""


@settings(max_examples=300, deadline=None)
@given(CHANGES, st.lists(st.tuples(st.sampled_from(["h", *HOSTS]), PATHS), min_size=1, max_size=8))
def test_random_ingresses_route_like_the_oracle(
    changes: list[tuple[str, dict[str, list[PathSpec]] | None, int, str]], requests: list[tuple[str, str]]
) -> None:
    table, current = RoutingTable(), dict[str, Ingress]()
    for name, hosts, created, default in changes:
        if hosts is None:
            table.remove(NamespacedName("default", name))
            current.pop(name, None)
        else:
            current[name] = ingress(name, hosts, created=created, default=default)
            table.put(rules_of(current[name]))
    for host, path in requests:
        if not host.startswith("*"):
            assert service_of(table, host, path) == oracle(list(current.values()), host, path)


def test_change_of_an_ingress_rebuilds_only_its_hosts() -> None:
    table = table_of(*(ingress(f"i{n}", {f"h{n}.example": [("/", "Prefix", "web")]}) for n in range(50)))
    routes = dict(table._routes)
    table.put(rules_of(ingress("i7", {"h7.example": [("/x", "Prefix", "web")]})))
    changed = [host for host, built in table._routes.items() if routes[host] is not built]
    assert changed == ["h7.example"]


def test_cost_of_a_request_does_not_grow_with_the_elements_of_its_path() -> None:
    rules = rules_of(ingress("web", {"": [("/" + "/".join("abcdefgh"), "Prefix", "web")]}))
    routes, path = HostRoutes("", [rules]), "/" * 8000
    assert routes.match(path) is None
    assert is_quick(lambda: [routes.match(path) for _ in range(1500)])


def test_ingress_with_many_hosts_and_tls_entries_has_bounded_cost() -> None:
    """An Ingress of 700 KB with 16,000 hosts and as many TLS entries without hosts."""
    hostile = ingress("web", {f"h{number}.example": [] for number in range(16_000)})
    hostile.spec.tls = [IngressTLS(secretName=f"s{number}") for number in range(16_000)]
    assert is_quick(lambda: rules_of(hostile))
    assert set(rules_of(hostile).secrets.values()) == {("default", "s0")}
