"""Every path and verb, as those who have been given nothing: what they may do is in the tables, and nothing else is."""

from collections.abc import Iterator

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.apiserver.authz import attributes_of
from sampan.apiserver.request.call import Call, Query, UserInfo, service_account_user
from sampan.machinery import errors
from tests.api_server import usual_authorizers
from tests.apiserver.in_process_server import Asking, asking, run

ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
UNBOUND = UserInfo("ann", groups=("system:authenticated",))
NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
ACCOUNT = service_account_user("ns", "robot")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FETCH")
"""The last is one that nobody knows."""
PATHS = (
    *("/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/none.example.com/v1"),
    *("/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/etcd", "/version", "/version/", "/metrics"),
    *("/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration"),
    *("/debug/flight", "/debug/pprof/", "/logs/", "/ui", "/swagger.json", "/none", "/proxy"),
)
PUBLIC = {"/healthz", "/livez", "/readyz", "/version", "/version/"}
DISCOVERY = {path for path in PATHS if path.startswith(("/api", "/apis", "/openapi"))}
KEYS = {"/openid/v1/jwks", "/.well-known/openid-configuration"}
SELF = {
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
}
_WRITES = ("create", "update", "patch")
OF_NODES = {
    *(
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "certificates.k8s.io", "certificatesigningrequests"),
    ),
    *(("create", "authorization.k8s.io", name) for name in ("subjectaccessreviews", "localsubjectaccessreviews")),
    *((verb, "certificates.k8s.io", "certificatesigningrequests") for verb in ("get", "list", "watch")),
    *((verb, "", "services") for verb in ("get", "list", "watch")),
    *((verb, "", "nodes") for verb in _WRITES),
    *((verb, "", "nodes/status") for verb in ("update", "patch")),
    *((verb, group, "events") for verb in _WRITES for group in ("", "events.k8s.io")),
    ("get", "", "endpoints"),
    *(("create", "", "pods"), ("delete", "", "pods"), ("create", "", "pods/eviction")),
    *((verb, "", "pods/status") for verb in ("update", "patch")),
    *((verb, "storage.k8s.io", "csidrivers") for verb in ("get", "list", "watch")),
    *((verb, "node.k8s.io", "runtimeclasses") for verb in ("get", "list", "watch")),
    ("create", "storage.k8s.io", "csinodes"),
    ("create", "resource.k8s.io", "resourceslices"),
}


def resource_paths(resource: Resource) -> Iterator[str]:
    start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    collections = [f"{start}/{resource.plural}"]
    if resource.namespaced:
        collections.append(f"{start}/namespaces/ns/{resource.plural}")
    yield from collections
    yield f"{start}/watch/{resource.plural}"
    for part in ("", *(f"/{sub.name}" for sub in resource.subresources)):
        yield f"{collections[-1]}/some{part}"


def calls(paths: Iterator[str], user: UserInfo) -> Iterator[Call]:
    for path in paths:
        for method in METHODS:
            for query in ("", "watch=true") if method == "GET" else ("",):
                yield Call(method=method, path=path, query=Query(query), headers={}, user=user)


async def allowed(asks: Asking, paths: list[str], user: UserInfo) -> set[tuple[str, str, str]]:
    """The verb, group and resource (or path) of all that the user may do there."""
    chain, requests = usual_authorizers(asks.registry), set()
    for call in calls(iter(paths), user):
        asks.pipeline.classify(call)
        attributes = attributes_of(call)
        if await chain.is_allowed(attributes):
            requests.add((attributes.verb, attributes.group, attributes.whole_resource or attributes.path))
    return requests


def of_paths(paths: set[str], *verbs: str) -> set[tuple[str, str, str]]:
    return {(verb, "", path) for path in paths for verb in verbs}


EVERY = ("get", "head", "post", "put", "patch", "delete", "options", "trace", "fetch")
HEALTH = of_paths({"/healthz", "/livez", "/readyz"}, *EVERY)
OPEN = HEALTH | of_paths(PUBLIC, "get")


def test_non_resource_paths_open_to_users_without_permissions() -> None:
    async def work() -> None:
        async with asking() as asks:
            paths = [path for path in PATHS if not path.startswith("/apis/none")]
            known = of_paths(DISCOVERY & set(paths), "get") | OPEN
            assert await allowed(asks, paths, ANONYMOUS) == OPEN
            assert await allowed(asks, paths, UNBOUND) == known
            assert await allowed(asks, paths, NODE) == known
            assert await allowed(asks, paths, ACCOUNT) == known | of_paths(KEYS, "get")

    run(work())


def test_resources_open_to_users_without_permissions() -> None:
    async def work() -> None:
        async with asking() as asks:
            paths = [path for resource in builtin_scheme({"api/all": True}) for path in resource_paths(resource)]
            assert await allowed(asks, paths, ANONYMOUS) == set()
            assert await allowed(asks, paths, UNBOUND) == SELF
            assert await allowed(asks, paths, ACCOUNT) == SELF
            assert await allowed(asks, paths, NODE) == SELF | OF_NODES

    run(work())


def test_what_is_not_served_tells_nothing() -> None:
    async def work() -> None:
        async with asking() as asks:
            places = (
                "things",
                "namespaces/ns/things/a",
                "proxy/namespaces/ns/secrets/s",
                "proxy/namespaces/ns/pods",
                "proxy/nodes",
                "proxy",
                "redirect/pods/p",
            )
            paths = [f"/api/v1/{place}" for place in places] + ["/apis/none.example.com/v1/things/a/status"]
            for user in (ANONYMOUS, UNBOUND, NODE, ACCOUNT):
                assert await allowed(asks, paths, user) == set()

    run(work())


CLASSIC = {
    "/api/v1/proxy/nodes/n1": "/api/v1/nodes/n1/proxy",
    "/api/v1/proxy/nodes/n1:10250/run/x": "/api/v1/nodes/n1:10250/proxy/run/x",
    "/api/v1/proxy/namespaces/ns/pods/p": "/api/v1/namespaces/ns/pods/p/proxy",
    "/api/v1/proxy/namespaces/ns/pods/p/secret/path": "/api/v1/namespaces/ns/pods/p/proxy/secret/path",
    "/api/v1/proxy/namespaces/ns/services/s:http/": "/api/v1/namespaces/ns/services/s:http/proxy/",
}


def test_classic_proxies_are_judged_as_the_modern_ones() -> None:
    async def work() -> None:
        async with asking() as asks:
            for old, new in CLASSIC.items():
                for was, now in zip(calls(iter([old]), UNBOUND), calls(iter([new]), UNBOUND), strict=True):
                    asks.pipeline.classify(was)
                    asks.pipeline.classify(now)
                    assert attributes_of(was) == attributes_of(now), old
                    assert (was.tail, was.subresource) == (now.tail, "proxy")
            for user in (ANONYMOUS, UNBOUND, NODE, ACCOUNT):
                assert await allowed(asks, [*CLASSIC, *CLASSIC.values()], user) == set()

    run(work())


@pytest.mark.parametrize(
    ("method", "path", "query", "name"),
    [
        ("GET", "/api/v1/namespaces/ns/secrets", "fieldSelector=metadata.name%3Dmine", "mine"),
        ("GET", "/api/v1/namespaces/ns/secrets", "watch=1&fieldSelector=metadata.name%3Dmine", "mine"),
        ("GET", "/api/v1/namespaces/ns/secrets", "fieldSelector=metadata.name!%3Dmine", ""),
        ("GET", "/api/v1/namespaces/ns/secrets", "fieldSelector=metadata.name%3D..", ""),
        ("GET", "/api/v1/watch/namespaces/ns/secrets", "fieldSelector=metadata.name%3Dmine", ""),
        ("POST", "/api/v1/namespaces/ns/secrets", "fieldSelector=metadata.name%3Dmine", ""),
        ("DELETE", "/api/v1/namespaces/ns/secrets", "fieldSelector=metadata.name%3Dmine", ""),
        ("GET", "/api/v1/namespaces/ns/secrets/other", "fieldSelector=metadata.name%3Dmine", "other"),
        ("POST", "/apis/none.example.com/v1/things", "fieldSelector=metadata.name%3Dmine", ""),
        ("GET", "/apis/none.example.com/v1/things", "fieldSelector=metadata.name%3Dmine", "mine"),
    ],
)
def test_a_selector_names_an_object_only_where_it_selects(method: str, path: str, query: str, name: str) -> None:
    async def work() -> None:
        async with asking() as asks:
            call = Call(method=method, path=path, query=Query(query), headers={}, user=UNBOUND)
            asks.pipeline.classify(call)
            assert attributes_of(call).name == name

    run(work())


EXISTING = "/api/v1/namespaces/ns/secrets/some"


def test_the_server_carries_out_nothing_that_is_not_in_the_tables() -> None:
    """Through the whole pipeline: what is not allowed is refused, in the same words whether the object is there or
    not."""

    async def work() -> None:
        async with asking() as asks:
            await asks.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
            await asks.create(
                "/api/v1/namespaces/ns/secrets", {"metadata": {"name": "some"}, "data": {"k": "c2VjcmV0"}}
            )
            paths = [path for resource in builtin_scheme() for path in resource_paths(resource)]
            for user, table in ((ANONYMOUS, set()), (UNBOUND, SELF), (ACCOUNT, SELF), (NODE, SELF | OF_NODES)):
                for call in calls(iter([*paths, *CLASSIC]), user):
                    asks.pipeline.classify(call)
                    attributes = attributes_of(call)
                    if (attributes.verb, attributes.group, attributes.whole_resource) in table:
                        continue
                    with pytest.raises(errors.Forbidden) as refused:
                        await asks.pipeline.serve_as(call)
                    assert refused.value.code == 403
            there, missing = [await _refused(asks, path) for path in (EXISTING, EXISTING.replace("some", "none"))]
            assert there == missing.replace("none", "some")

    run(work())


async def _refused(asks: Asking, path: str) -> str:
    call = Call(method="GET", path=path, query=Query(""), headers={}, user=UNBOUND)
    with pytest.raises(errors.Forbidden) as refused:
        await asks.pipeline.serve_as(call)
    return refused.value.message
