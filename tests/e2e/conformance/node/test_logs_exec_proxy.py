"""Conformance tests of sig-node for logs, exec and proxies, on a real node. The first paragraph of a docstring is the
official test name."""

import asyncio
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Endpoints, Service
from sampan.testing import Cluster
from tests.e2e.client_sessions import open_session
from tests.e2e.conformance.node.pods import container, create_pod, wait_until_ready
from tests.e2e.conformance.storage.real_node import RealNode, real_cluster, wait_for_service_account
from tests.e2e.kubectl.command import Kubectl, find_kubectl

_SERVER = """
import http.server
class Porter(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"{self.command} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer
http.server.ThreadingHTTPServer(("", 8080), Porter).serve_forever()
"""
_METHODS = ("DELETE", "OPTIONS", "PATCH", "POST", "PUT", "GET", "HEAD")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with real_cluster() as running:
        yield running


@pytest.fixture
def node(cluster: Cluster) -> Iterator[RealNode]:
    with cluster.namespace() as namespace:
        cluster.run(wait_for_service_account(cluster, namespace))
        yield RealNode(cluster, namespace)


def _tls(cluster: Cluster) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cluster.ca))
    context.load_cert_chain(*cluster.client_certificate)
    return context


def _run_pod(cluster: Cluster, node: RealNode, script: str, **more: Any) -> None:
    async def begin() -> None:
        await create_pod(node, container(script=script, **more), meta={"labels": {"app": "p"}})
        await wait_until_ready(node)

    cluster.run(begin(), timeout_s=60)


# -- commands and logs -----------------------------------------------------------------------------------------------


async def test_exec_over_websockets(cluster: Cluster, node: RealNode) -> None:
    """[sig-node] Pods should support remote command execution over websockets [NodeConformance] [Conformance]"""
    _run_pod(cluster, node, "sleep 1000")

    url = f"{cluster.url}/api/v1/namespaces/{node.namespace}/pods/p/exec"
    query = [("command", "echo"), ("command", "remote execution test"), ("stdout", "1"), ("stderr", "1")]
    async with (
        open_session() as session,
        session.ws_connect(url, params=query, protocols=["channel.k8s.io"], ssl=_tls(cluster)) as socket,
    ):
        output = b""
        async for message in socket:
            if message.data and message.data[0] == 1:
                output += message.data[1:]
        assert output == b"remote execution test\n"


async def test_logs_over_websockets(cluster: Cluster, node: RealNode) -> None:
    """[sig-node] Pods should support retrieving logs from the container over websockets [NodeConformance]
    [Conformance]"""
    _run_pod(cluster, node, "echo container is alive; sleep 1000")

    url = f"{cluster.url}/api/v1/namespaces/{node.namespace}/pods/p/log?container=c"
    async with (
        open_session() as session,
        session.ws_connect(url, protocols=["binary.k8s.io"], ssl=_tls(cluster)) as socket,
    ):
        output = b"".join([message.data async for message in socket])
        assert output == b"container is alive\n"


async def test_container_output_is_in_the_log(cluster: Cluster, node: RealNode) -> None:
    """[sig-node] Kubelet when scheduling a busybox command in a pod should print the output to logs [NodeConformance]
    [Conformance]"""
    _run_pod(cluster, node, "echo 'Hello World'; echo error >&2; sleep 1000")

    url = f"{cluster.url}/api/v1/namespaces/{node.namespace}/pods/p/log"
    async with open_session() as session, session.get(url, ssl=_tls(cluster)) as response:
        assert sorted((await response.text()).splitlines()) == ["Hello World", "error"]


def test_kubectl_logs(cluster: Cluster, node: RealNode, tmp_path: Path) -> None:
    """[sig-cli] Kubectl logs logs should be able to retrieve and filter logs [Conformance]"""
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl here")
    _run_pod(cluster, node, "for i in 1 2 3; do echo line $i; done; sleep 1000")
    kubectl = Kubectl(program=program, kubeconfig=cluster.kubeconfig, home=tmp_path)
    where = ("-n", node.namespace, "logs", "p", "c")
    assert kubectl(*where) == "line 1\nline 2\nline 3\n"
    assert kubectl(*where, "--tail=1") == "line 3\n"
    assert kubectl(*where, "--limit-bytes=1") == "l"
    stamped = kubectl(*where, "--tail=1", "--timestamps")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z line 3\n", stamped)
    assert kubectl(*where, "--since=24h").count("\n") == 3


# -- proxies ---------------------------------------------------------------------------------------------------------


def _run_server(cluster: Cluster, node: RealNode) -> None:
    """Run a pod that responds with the request that it gets, and a service for it."""
    _run_pod(
        cluster,
        node,
        f"exec /usr/bin/python3 -c '{_SERVER}'",
        ports=[{"containerPort": 8080, "name": "web"}],
        readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    )
    ports = [{"name": "web", "port": 80, "targetPort": "web"}]
    meta = {"name": "s", "namespace": node.namespace}
    value = {"metadata": meta, "spec": {"selector": {"app": "p"}, "ports": ports}}

    async def has_endpoints() -> None:
        await cluster.client.for_kind(Service).create(json.from_value(value, Service))
        async with asyncio.timeout(60), cluster.client.for_kind(Endpoints).watch() as events:
            async for batch in events:
                for event in batch:
                    service = event.object
                    if service.metadata.namespace == node.namespace and any(
                        subset.addresses for subset in service.subsets
                    ):
                        return

    cluster.run(has_endpoints(), timeout_s=40)


async def _replies(cluster: Cluster, node: RealNode, paths: list[str], methods: tuple[str, ...]) -> list[Any]:
    """Return the response of each path to each method."""
    replies = []
    async with open_session() as session:
        for path in paths:
            for method in methods:
                url = f"{cluster.url}/api/v1/namespaces/{node.namespace}/{path}"
                async with session.request(method, url, ssl=_tls(cluster), allow_redirects=False) as response:
                    replies.append((response.status, await response.text()))
    return replies


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(
            "/",
            id="[sig-network] Proxy version v1 A set of valid responses are returned for both pod and service Proxy",
        ),
        pytest.param(
            "/some/path/with/METHOD",
            id="[sig-network] Proxy version v1 A set of valid responses are returned for both pod and service "
            "ProxyWithPath",
        ),
    ],
)
def test_proxy_supports_every_http_method(cluster: Cluster, node: RealNode, tail: str) -> None:
    _run_server(cluster, node)
    paths = [f"pods/p/proxy{tail}", f"services/s:web/proxy{tail}"]
    replies = asyncio.run(_replies(cluster, node, paths, _METHODS))
    assert replies == [(200, "" if method == "HEAD" else f"{method} {tail}") for _ in paths for method in _METHODS]
    bare = asyncio.run(_replies(cluster, node, ["pods/p/proxy", "services/s:web/proxy"], ("GET",)))
    assert [status for status, _ in bare] == [301, 301]


def test_proxy_by_port_name_and_port_number(cluster: Cluster, node: RealNode) -> None:
    """[sig-network] Proxy version v1 should proxy through a service and a pod [Conformance]"""
    _run_server(cluster, node)
    names = ("services/s:web", "services/http:s:web", "services/s:80", "services/http:s:80")
    pods = ("pods/p", "pods/p:8080", "pods/http:p:8080")
    replies = asyncio.run(_replies(cluster, node, [f"{name}/proxy/x" for name in (*names, *pods)], ("GET",)))
    assert replies == [(200, "GET /x")] * 7
