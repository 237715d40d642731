"""Every path and verb for users without permissions: only the requests in the tables below are allowed."""

from collections.abc import Iterator

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.scheme import builtin_scheme
from sampan.apiserver.authz import attributes_of
from sampan.apiserver.request.call import Call, Query, UserInfo, service_account_user
from sampan.machinery import errors
from tests.api_server import usual_authorizers
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run

ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
UNBOUND = UserInfo("ann", groups=("system:authenticated",))
NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
ACCOUNT = service_account_user("ns", "robot")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FETCH")
"""All known HTTP methods, and the unknown method FETCH."""
PATHS = (
    *("/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/none.example.com/v1"),
    *("/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/etcd", "/version", "/version/", "/metrics"),
    *("/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration"),
    *("/debug/flight", "/debug/pprof/", "/logs/", "/ui", "/swagger.json", "/none", "/proxy"),
)
PUBLIC = {"/healthz", "/livez", "/readyz", "/version", "/version/"}
DISCOVERY = {path for path in PATHS if path.startswith(("/api", "/apis", "/openapi"))}
KEYS = {"/openid/v1/jwks", "/.well-known/openid-configuration"}
SELF_REVIEWS = {
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
}
ACCOUNT_PERMISSIONS = {(verb, "certificates.k8s.io", "clustertrustbundles") for verb in ("get", "list", "watch")}
_WRITES = ("create", "update", "patch")
NODE_PERMISSIONS = {
    *(
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "certificates.k8s.io", "certificatesigningrequests"),
        ("create", "certificates.k8s.io", "podcertificaterequests"),
    ),
    *((verb, "certificates.k8s.io", "clustertrustbundles") for verb in ("get", "list", "watch")),
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


async def find_allowed_requests(client: InProcessClient, paths: list[str], user: UserInfo) -> set[tuple[str, str, str]]:
    """Return the verb, group and resource (or path) of all requests to these paths that the user may send."""
    chain, requests = usual_authorizers(client.registry), set()
    for call in calls(iter(paths), user):
        client.pipeline.classify(call)
        attributes = attributes_of(call)
        if await chain.is_allowed(attributes):
            requests.add((attributes.verb, attributes.group, attributes.whole_resource or attributes.path))
    return requests


def path_requests(paths: set[str], *verbs: str) -> set[tuple[str, str, str]]:
    return {(verb, "", path) for path in paths for verb in verbs}


VERBS = ("get", "head", "post", "put", "patch", "delete", "options", "trace", "fetch")
HEALTH = path_requests({"/healthz", "/livez", "/readyz"}, *VERBS)
PUBLIC_REQUESTS = HEALTH | path_requests(PUBLIC, "get")


def test_non_resource_paths_open_to_users_without_permissions() -> None:
    async def work() -> None:
        async with in_process_client() as client:
            paths = [path for path in PATHS if not path.startswith("/apis/none")]
            discovery_requests = path_requests(DISCOVERY & set(paths), "get") | PUBLIC_REQUESTS
            assert await find_allowed_requests(client, paths, ANONYMOUS) == PUBLIC_REQUESTS
            assert await find_allowed_requests(client, paths, UNBOUND) == discovery_requests
            assert await find_allowed_requests(client, paths, NODE) == discovery_requests
            assert await find_allowed_requests(client, paths, ACCOUNT) == discovery_requests | path_requests(
                KEYS, "get"
            )

    run(work())


def test_resources_open_to_users_without_permissions() -> None:
    async def work() -> None:
        async with in_process_client() as client:
            paths = [path for resource in builtin_scheme({"api/all": True}) for path in resource_paths(resource)]
            assert await find_allowed_requests(client, paths, ANONYMOUS) == set()
            assert await find_allowed_requests(client, paths, UNBOUND) == SELF_REVIEWS
            assert await find_allowed_requests(client, paths, ACCOUNT) == SELF_REVIEWS | ACCOUNT_PERMISSIONS
            assert await find_allowed_requests(client, paths, NODE) == SELF_REVIEWS | NODE_PERMISSIONS

    run(work())


def test_unknown_resources_are_forbidden_to_users_without_permissions() -> None:
    async def work() -> None:
        async with in_process_client() as client:
            unknown_paths = (
                "things",
                "namespaces/ns/things/a",
                "proxy/namespaces/ns/secrets/s",
                "proxy/namespaces/ns/pods",
                "proxy/nodes",
                "proxy",
                "redirect/pods/p",
            )
            paths = [f"/api/v1/{path}" for path in unknown_paths] + ["/apis/none.example.com/v1/things/a/status"]
            for user in (ANONYMOUS, UNBOUND, NODE, ACCOUNT):
                assert await find_allowed_requests(client, paths, user) == set()

    run(work())


CLASSIC = {
    "/api/v1/proxy/nodes/n1": "/api/v1/nodes/n1/proxy",
    "/api/v1/proxy/nodes/n1:10250/run/x": "/api/v1/nodes/n1:10250/proxy/run/x",
    "/api/v1/proxy/namespaces/ns/pods/p": "/api/v1/namespaces/ns/pods/p/proxy",
    "/api/v1/proxy/namespaces/ns/pods/p/secret/path": "/api/v1/namespaces/ns/pods/p/proxy/secret/path",
    "/api/v1/proxy/namespaces/ns/services/s:http/": "/api/v1/namespaces/ns/services/s:http/proxy/",
}


def test_classic_proxy_paths_are_authorized_like_the_proxy_subresource() -> None:
    async def work() -> None:
        async with in_process_client() as client:
            for old, new in CLASSIC.items():
                for classic_call, modern_call in zip(
                    calls(iter([old]), UNBOUND), calls(iter([new]), UNBOUND), strict=True
                ):
                    client.pipeline.classify(classic_call)
                    client.pipeline.classify(modern_call)
                    assert attributes_of(classic_call) == attributes_of(modern_call), old
                    assert (classic_call.tail, classic_call.subresource) == (modern_call.tail, "proxy")
            for user in (ANONYMOUS, UNBOUND, NODE, ACCOUNT):
                assert await find_allowed_requests(client, [*CLASSIC, *CLASSIC.values()], user) == set()

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
def test_field_selector_sets_the_object_name_only_in_list_and_watch(
    method: str, path: str, query: str, name: str
) -> None:
    async def work() -> None:
        async with in_process_client() as client:
            call = Call(method=method, path=path, query=Query(query), headers={}, user=UNBOUND)
            client.pipeline.classify(call)
            assert attributes_of(call).name == name

    run(work())


EXISTING_SECRET = "/api/v1/namespaces/ns/secrets/some"


def test_requests_without_permission_get_403_from_the_whole_pipeline() -> None:
    """The message is the same whether the object exists or not."""

    async def work() -> None:
        async with in_process_client() as client:
            await client.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
            await client.create(
                "/api/v1/namespaces/ns/secrets", {"metadata": {"name": "some"}, "data": {"k": "c2VjcmV0"}}
            )
            paths = [path for resource in builtin_scheme() for path in resource_paths(resource)]
            for user, table in (
                (ANONYMOUS, set()),
                (UNBOUND, SELF_REVIEWS),
                (ACCOUNT, SELF_REVIEWS | ACCOUNT_PERMISSIONS),
                (NODE, SELF_REVIEWS | NODE_PERMISSIONS),
            ):
                for call in calls(iter([*paths, *CLASSIC]), user):
                    client.pipeline.classify(call)
                    attributes = attributes_of(call)
                    if (attributes.verb, attributes.group, attributes.whole_resource) in table:
                        continue
                    with pytest.raises(errors.Forbidden) as refused:
                        await client.pipeline.serve_as(call)
                    assert refused.value.code == 403
            existing, missing = [
                await _forbidden_message(client, path)
                for path in (EXISTING_SECRET, EXISTING_SECRET.replace("some", "none"))
            ]
            assert existing == missing.replace("none", "some")

    run(work())


async def _forbidden_message(client: InProcessClient, path: str) -> str:
    call = Call(method="GET", path=path, query=Query(""), headers={}, user=UNBOUND)
    with pytest.raises(errors.Forbidden) as refused:
        await client.pipeline.serve_as(call)
    return refused.value.message
