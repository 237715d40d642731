"""Metrics of kubelets in other processes, and APIs that APIServices register: real servers over TLS."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from sampan.apiserver.aggregation.controller import AggregationController
from sampan.apiserver.aggregation.remote_api import RemoteApi
from sampan.apiserver.aggregation.remote_groups import RemoteGroups
from sampan.apiserver.metrics_api.api import NAME
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.apiserver.server_address import find_default_route_address
from sampan.cluster.pki import ADMIN, CA, PROXY_CA, PROXY_CLIENT
from sampan.machinery import errors
from sampan.machinery.client.transport import Request as ClientRequest
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue
from sampan.machinery.telemetry.metrics import Metrics
from sampan.testing.keys import KEYS
from tests.controllers.cluster import Cluster, cluster
from tests.eventually import eventually

METRICS = "/apis/metrics.k8s.io/v1beta1"
SERVICE = "/api/v1/namespaces/kube-system/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
REGISTRATION = "v1beta1.metrics.k8s.io"
SERVICE_HOST = "metrics-server.kube-system.svc"
SUMMARY = {
    "node": {
        "nodeName": "remote",
        "cpu": {"time": "2026-01-01T00:00:00Z", "usageNanoCores": 7},
        "memory": {"workingSetBytes": 4096},
    },
    "pods": [],
}

needs_address = pytest.mark.skipif(
    find_default_route_address().startswith("127."),
    reason="this machine has no address of its own but the loopback one",
)


class RemoteServer:
    """A server on this machine's own address that is both a kubelet and a metrics server."""

    def __init__(self, ca: bytes) -> None:
        self.ca, self.port = ca, 0
        self.received: list[web.BaseRequest] = []
        self.peers: list[Any] = []
        """The subjects of the client certificates of all requests except discovery."""

    def requests(self) -> list[web.BaseRequest]:
        """Return the requests other than those for discovery and OpenAPI."""
        return [request for request in self.received if not _is_discovery_or_openapi(request)]

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        self.received.append(request)
        if request.path.startswith("/openapi/"):
            return web.Response(status=404)
        if request.path != METRICS:
            self.peers.append((request.get_extra_info("peercert") or {}).get("subject"))
        if request.path == METRICS:
            return web.json_response(
                {"kind": "APIResourceList", "resources": [_api_resource("nodes"), _api_resource("pods")]}
            )
        if request.path == "/stats/summary":
            return web.json_response(SUMMARY)
        if request.path.endswith("/namespaces/redirected/pods"):
            return web.Response(status=307, headers={"Location": "/secret"})
        if request.path.endswith("/namespaces/oversized/pods"):
            return web.Response(body=bytes(65 << 20))
        return web.json_response({"kind": "NodeMetricsList", "items": [], "path": request.raw_path}, status=203)


def _is_discovery_or_openapi(request: web.BaseRequest) -> bool:
    return request.path == METRICS or request.path.startswith("/openapi/")


def _api_resource(name: str) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": False, "kind": "Metrics", "verbs": ["get", "list"]}


@asynccontextmanager
async def remote_server(directory: Path) -> AsyncIterator[RemoteServer]:
    pki, now = KEYS.write(directory / "remote"), time.time()
    ca = KeyPair(pki.certificate(CA).read_bytes(), pki.key(CA).read_bytes())
    pair = issue(ca, SigningRequest(common_name="metrics-server", dns_names=[SERVICE_HOST], is_server=True), now=now)
    file = directory / "serving.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    for trusted in (CA, PROXY_CA):
        context.load_verify_locations(pki.certificate(trusted))
    context.verify_mode = ssl.CERT_OPTIONAL
    server = RemoteServer(ca.certificate)
    runner = web.ServerRunner(web.Server(server.respond), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, find_default_route_address(), 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


async def send(cluster_: Cluster, method: str, path: str, value: Any = None, **query: str) -> Any:
    headers = {"Content-Type": "application/json"} if value is not None else {}
    body = msgspec.json.encode(value) if value is not None else b""
    request = ClientRequest(method=method, path=path, query=list(query.items()), headers=headers, body=body)
    return msgspec.json.decode((await cluster_.transport.send(request)).body())


async def add_node(cluster_: Cluster, port: int) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": find_default_route_address()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await send(cluster_, "POST", "/api/v1/nodes", {"metadata": {"name": "remote"}, "status": status})


async def is_metrics_api_served(cluster_: Cluster) -> bool:
    groups = await send(cluster_, "GET", "/apis")
    return any(group["name"] == "metrics.k8s.io" for group in groups["groups"])


@needs_address
async def test_metrics_api_is_served_once_a_remote_kubelet_has_metrics(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await send(cluster_, "POST", "/api/v1/nodes", {"metadata": {"name": "silent"}})
        await cluster_.clock.settle()
        assert not await is_metrics_api_served(cluster_), "no kubelet has metrics"
        await add_node(cluster_, remote.port)
        await eventually(lambda: is_metrics_api_served(cluster_))
        response = await send(cluster_, "GET", f"{METRICS}/nodes")
        assert [(item["metadata"]["name"], item["usage"]) for item in response["items"]] == [
            ("remote", {"cpu": "7n", "memory": "4Ki"})
        ]
        async with cluster_.running("clusterrole-aggregation-controller"):
            role = await send(cluster_, "GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}")
            assert role["rules"][0]["resources"] == ["pods", "nodes"]
            await eventually(lambda: _view_role_includes(cluster_, role["rules"][0]))


async def _view_role_includes(cluster_: Cluster, rule: Any) -> bool:
    view = await send(cluster_, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    return rule in view["rules"]


async def register(cluster_: Cluster, port: int, **spec: Any) -> None:
    ports = [{"name": "https", "port": 443}]
    await send(cluster_, "POST", SERVICE, {"metadata": {"name": "metrics-server"}, "spec": {"ports": ports}})
    await send(cluster_, "POST", SLICES, make_slice(port))
    await register_apiservice(cluster_, **spec)


def make_slice(port: int, *, name: str = "https", is_ready: bool = True) -> dict[str, Any]:
    """Return a slice of the service as a user writes it: no controller adds another one or an Endpoints object."""
    endpoint = {"addresses": [find_default_route_address()], "conditions": {"ready": is_ready}}
    return {
        "metadata": {"name": "metrics-server-1", "labels": {"kubernetes.io/service-name": "metrics-server"}},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{"name": name, "port": port}],
    }


async def register_apiservice(cluster_: Cluster, **spec: Any) -> None:
    apiservice_spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "metrics-server", "namespace": "kube-system"},
        **spec,
    }
    await send(cluster_, "POST", REGISTRATIONS, {"metadata": {"name": REGISTRATION}, "spec": apiservice_spec})
    await eventually(lambda: condition(cluster_))


async def condition(cluster_: Cluster) -> dict[str, Any] | None:
    """Return the condition Available of the registration once it is known."""
    status = (await send(cluster_, "GET", f"{REGISTRATIONS}/{REGISTRATION}")).get("status", {})
    return next(iter(status.get("conditions", [])), None)


@needs_address
async def test_metrics_apiservice_takes_precedence_over_kubelet_metrics(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, caBundle=base64.b64encode(remote.ca).decode())
        response = await send(cluster_, "GET", f"{METRICS}/nodes", labelSelector="a=b c")
        assert response["path"] == f"{METRICS}/nodes?labelSelector=a%3Db+c"
        headers = remote.requests()[0].headers
        assert headers["X-Remote-User"] == "system:apiserver"
        assert headers.getall("X-Remote-Group") == ["system:masters", "system:authenticated"]
        assert "Authorization" not in headers
        resources = await send(cluster_, "GET", METRICS)
        assert [resource["name"] for resource in resources["resources"]] == ["nodes", "pods"]
        available = await condition(cluster_)
        assert available is not None
        assert (available["status"], available["reason"]) == ("True", "Passed")
        assert await is_metrics_api_served(cluster_)
        await add_node(cluster_, remote.port)
        assert (await send(cluster_, "GET", f"{METRICS}/nodes"))["path"] == f"{METRICS}/nodes", (
            "the APIService keeps precedence over kubelets"
        )
        await send(cluster_, "DELETE", f"{REGISTRATIONS}/{REGISTRATION}")
        await eventually(lambda: _node_metrics(cluster_))


@needs_address
@pytest.mark.parametrize(("file", "name"), [("admin.crt", "kubernetes-admin"), ("none.crt", "")])
async def test_proxy_client_certificate_is_sent_if_its_file_exists(tmp_path: Path, file: str, name: str) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, insecureSkipTLSVerify=True)
        server, keys = cluster_.server, tmp_path / "remote"
        item = await server.registry.open_store_of("apiregistration.k8s.io", "v1", "APIService").get("", REGISTRATION)
        service = item.object(server.registry.open_store_of("apiregistration.k8s.io", "v1", "APIService").codec.decode)
        files = (keys / file, keys / "admin.key")
        api = RemoteApi(registry=server.registry, upstream=server.upstream, service=service, client=files)
        call = Call(method="GET", path=f"{METRICS}/pods", query=Query(""), headers={}, user=UserInfo("ann"))
        await api.serve(call)
        assert remote.received[-1].headers["X-Remote-User"] == "ann"
        attributes = dict(pair for relative in remote.peers[-1] or () for pair in relative)
        assert attributes.get("commonName", "") == name


@needs_address
async def test_renewed_proxy_client_certificate_is_used(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, insecureSkipTLSVerify=True)
        client = (tmp_path / "client.crt", tmp_path / "client.key")
        _copy_key_pair(tmp_path / "remote", ADMIN, client)
        server = cluster_.server
        remotes = RemoteGroups()
        controller = AggregationController(
            pipeline=server.pipeline, upstream=server.upstream, remotes=remotes, client=client, metrics=Metrics()
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controller.run())
            await eventually(lambda: _sends_certificate_of(remotes, remote, "kubernetes-admin"))
            _copy_key_pair(tmp_path / "remote", PROXY_CLIENT, client)
            controller.renew_client()
            assert await _sends_certificate_of(remotes, remote, "front-proxy-client")
            running.cancel()


def _copy_key_pair(keys: Path, name: str, client: tuple[Path, Path]) -> None:
    for file, suffix in zip(client, ("crt", "key"), strict=True):
        file.write_bytes((keys / f"{name}.{suffix}").read_bytes())


async def _sends_certificate_of(remotes: RemoteGroups, remote: RemoteServer, name: str) -> bool:
    call = Call(method="GET", path=f"{METRICS}/nodes", query=Query(""), headers={}, user=UserInfo("ann"))
    if await remotes.serve(call) is None:
        return False
    subject = remote.peers[-1] if remote.peers else None
    attributes: dict[str, str] = dict(pair for relative in subject or () for pair in relative)
    return attributes.get("commonName", "") == name


@needs_address
async def test_redirects_of_an_aggregated_server_are_not_followed(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, insecureSkipTLSVerify=True)
        path = f"{METRICS}/namespaces/redirected/pods"
        response = await cluster_.transport.send(ClientRequest(method="GET", path=path, headers={}))
        assert (response.status, response.headers["Location"]) == (307, "/secret")
        assert [request.path for request in remote.requests()] == [path]


@needs_address
async def test_oversized_response_of_an_aggregated_server_gets_503(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, insecureSkipTLSVerify=True)
        path = f"{METRICS}/namespaces/oversized/pods"
        with pytest.raises(errors.ApiError, match="more than") as refused:
            await send(cluster_, "GET", path)
        assert refused.value.code == 503


async def _node_metrics(cluster_: Cluster) -> Any:
    """Return the node metrics that kubelets report."""
    return (await send(cluster_, "GET", f"{METRICS}/nodes"))["items"]


@needs_address
@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({}, "FailedDiscoveryCheck", "certificate signed by unknown authority"),
        (
            {"service": {"name": "metrics-server", "namespace": "kube-system", "port": 444}},
            "ServicePortError",
            "is not listening on port 444",
        ),
        ({"service": {"name": "none", "namespace": "kube-system"}}, "ServiceNotFound", "is not present"),
    ],
)
async def test_apiservice_with_unreachable_service_is_unavailable(
    tmp_path: Path, spec: dict[str, Any], reason: str, message: str
) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, **spec)
        available = await condition(cluster_)
        assert available is not None
        assert (available["status"], available["reason"]) == ("False", reason)
        assert message in available["message"]
        with pytest.raises(errors.ServiceUnavailable):
            await send(cluster_, "GET", f"{METRICS}/nodes")


@pytest.mark.parametrize(
    ("endpoint_slice", "reason", "message"),
    [
        (None, "EndpointsNotFound", 'cannot find endpointslices for service/metrics-server in "kube-system"'),
        (make_slice(443, is_ready=False), "MissingEndpoints", 'have no addresses with port name "https"'),
        (make_slice(443, name="http"), "MissingEndpoints", 'have no addresses with port name "https"'),
    ],
    ids=["no slice", "no ready endpoint", "no such port"],
)
async def test_apiservice_without_a_ready_endpoint_is_unavailable(
    endpoint_slice: dict[str, Any] | None, reason: str, message: str
) -> None:
    async with cluster() as cluster_:
        spec = {"ports": [{"name": "https", "port": 443}]}
        await send(cluster_, "POST", SERVICE, {"metadata": {"name": "metrics-server"}, "spec": spec})
        if endpoint_slice is not None:
            await send(cluster_, "POST", SLICES, endpoint_slice)
        await register_apiservice(cluster_)
        available = await condition(cluster_)
        assert available is not None
        assert (available["status"], available["reason"]) == ("False", reason)
        assert message in available["message"]
        lines = cluster_.server.metrics.text().splitlines()
        assert f'aggregator_unavailable_apiservice{{name="{REGISTRATION}"}} 1' in lines


@needs_address
async def test_apiservice_that_becomes_unavailable_is_counted(tmp_path: Path) -> None:
    async with remote_server(tmp_path) as remote, cluster() as cluster_:
        await register(cluster_, remote.port, insecureSkipTLSVerify=True)
        metrics = Metrics()
        server = cluster_.server
        remotes = RemoteGroups()
        controller = AggregationController(
            pipeline=server.pipeline, upstream=server.upstream, remotes=remotes, metrics=metrics
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controller.run())

            async def is_shown(line: str) -> bool:
                return line in metrics.text().splitlines()

            await eventually(lambda: is_shown(f'aggregator_unavailable_apiservice{{name="{REGISTRATION}"}} 0'))
            await eventually(lambda: _is_followed(remotes))
            (remote_version,) = remotes.remote_versions()["metrics.k8s.io"]
            await remote_version.available.wait()
            await send(cluster_, "DELETE", f"{SLICES}/metrics-server-1")
            controller._use(remote_version, await controller._check(remote_version))
            labels = f'name="{REGISTRATION}",reason="EndpointsNotFound"'
            assert await is_shown(f"aggregator_unavailable_apiservice_total{{{labels}}} 1")
            running.cancel()


async def _is_followed(remotes: RemoteGroups) -> bool:
    return "metrics.k8s.io" in remotes.remote_versions()


async def test_dead_apiservice_blocks_the_deletion_of_a_namespace_as_in_kubernetes() -> None:
    """namespace-controller empties the namespace, reports the API group that it cannot discover, and finalizes the
    namespace once the group is available or unregistered."""
    async with cluster() as cluster_, cluster_.running("namespace-controller"):
        await register_apiservice(cluster_)
        await send(cluster_, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
        await send(cluster_, "POST", "/api/v1/namespaces/n/configmaps", {"metadata": {"name": "c"}})
        await send(cluster_, "DELETE", "/api/v1/namespaces/n")
        await cluster_.clock.settle()
        assert (await send(cluster_, "GET", "/api/v1/namespaces/n/configmaps"))["items"] == []
        namespace = await send(cluster_, "GET", "/api/v1/namespaces/n")
        conditions = {
            row["type"]: row["message"] for row in namespace["status"]["conditions"] if row["status"] == "True"
        }
        assert conditions == {
            "NamespaceDeletionDiscoveryFailure": "Discovery failed for some groups, 1 failing: unable to retrieve the "
            "complete list of server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"
        }
        await send(cluster_, "DELETE", f"{REGISTRATIONS}/{REGISTRATION}")
        await eventually(lambda: _is_unregistered(cluster_))
        await cluster_.clock.advance(60)
        with pytest.raises(errors.NotFound):
            await send(cluster_, "GET", "/api/v1/namespaces/n")


async def _is_unregistered(cluster_: Cluster) -> bool:
    return not await is_metrics_api_served(cluster_)


async def test_apiservices_are_registered_for_builtin_and_custom_groups() -> None:
    async with cluster() as cluster_:
        await eventually(lambda: _is_registered(cluster_, "v1.apps"))
        service = await send(cluster_, "GET", f"{REGISTRATIONS}/v1.apps")
        assert service["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        assert service["status"]["conditions"][0]["reason"] == "Local"
        definition = {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
                ],
            },
        }
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await send(cluster_, "POST", definitions, definition)
        await eventually(lambda: _is_registered(cluster_, "v1.example.com"))
        await send(cluster_, "DELETE", f"{definitions}/things.example.com")
        await eventually(lambda: _is_gone(cluster_, "v1.example.com"))


async def _is_registered(cluster_: Cluster, name: str) -> bool:
    services = await send(cluster_, "GET", REGISTRATIONS)
    return any(service["metadata"]["name"] == name for service in services["items"])


async def _is_gone(cluster_: Cluster, name: str) -> bool:
    return not await _is_registered(cluster_, name)
