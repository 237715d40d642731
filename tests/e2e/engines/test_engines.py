"""Pods on real containerd and real Docker, with `sampan up`: they run, are reachable, survive a restart of the kubelet,
and leave nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tests.e2e.engines.engine_cluster import (
    HOST,
    LOADED,
    EngineCluster,
    engine_cluster,
    fetch,
    missing_requirement,
    pod,
)
from tests.eventually import wait_until
from tests.ports import free_port

_TIMEOUT_S = 60.0
_SERVES = "while true; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nhello' | nc -l -p 80; done"
_SAYS = "cat /data/first; env | grep ^DB_SERVICE_PORT; exec sleep 1000000"


@pytest.fixture(scope="module", params=["cri", "docker"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineCluster]:
    """A running engine, with a cluster that each test starts and stops."""
    if why := missing_requirement(request.param):
        pytest.skip(why)
    with engine_cluster(request.param, tmp_path_factory.mktemp(request.param)) as cluster:
        yield cluster


def test_pods_run_are_reachable_and_survive_a_kubelet_restart(cluster: EngineCluster) -> None:
    cluster.start()
    _run_pods(cluster)
    _check_reachability(cluster)
    _check_logs_exec_and_port_forward(cluster)
    _check_runtime_handlers(cluster)
    before = _containers(cluster)
    cluster.kill()
    cluster.start()
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    assert _containers(cluster) == before
    assert cluster.kubectl("exec", "client", "--", "echo", "still here") == "still here\n"
    cluster.sampan("down")
    assert cluster.leftovers() == []


@pytest.mark.parametrize("cluster", ["cri"], indirect=True)
def test_cri_endpoint_with_two_nodes_is_rejected(cluster: EngineCluster) -> None:
    endpoint = f"unix://{cluster.engine.socket}"
    output = cluster.sampan.expect_failure("up", "--detach", "--nodes", "2", "--container-runtime-endpoint", endpoint)
    assert "can serve only one node" in output


def test_down_removes_the_containers_of_a_killed_cluster(cluster: EngineCluster) -> None:
    cluster.start()
    _apply(cluster, pod("left", HOST, ["sleep", "1000000"]))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/left", "--timeout=60s")
    assert cluster.containers()
    cluster.kill()
    assert "node-0" in cluster.sampan("down")
    assert cluster.leftovers() == []


def _apply(cluster: EngineCluster, *objects: dict[str, Any]) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def _run_pods(cluster: EngineCluster) -> None:
    service = {"selector": {"app": "web"}, "ports": [{"port": 5432}]}
    ports = {"ports": [{"containerPort": 80, "hostPort": cluster.host_port}]}
    data = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    first = {"name": "first", "image": LOADED, "command": ["sh", "-c", "echo first > /data/first"], **data}
    volumes = [{"name": "data", "emptyDir": {}}]
    _apply(
        cluster,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": service},
        pod("web", LOADED, ["sh", "-c", _SERVES], container=ports),
        pod("client", HOST, ["sh", "-c", _SAYS], container=data, initContainers=[first], volumes=volumes),
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")


def _check_reachability(cluster: EngineCluster) -> None:
    """The node and other pods reach a pod by its address; the host port is open on the node address and loopback."""
    address = cluster.kubectl.jsonpath("get", "pod", "web", "{.status.podIP}")
    node = cluster.kubectl.jsonpath("get", "node", "node-0", "{.status.addresses[0].address}")
    own = cluster.kubectl.jsonpath("get", "node", "node-0", "{.spec.podCIDR}")
    assert ip_address(address) in ip_network(own)
    asks = f"import urllib.request; print(urllib.request.urlopen('http://{address}/', timeout=10).read().decode())"
    for ask in (
        lambda: fetch(address),
        lambda: fetch(f"{node}:{cluster.host_port}"),
        lambda: fetch(f"127.0.0.1:{cluster.host_port}"),
        lambda: cluster.kubectl("exec", "client", "-c", "main", "--", "python3", "-c", asks).strip(),
    ):
        assert _reply(ask) == "hello"


def _reply(ask: Any) -> str:
    """Retry, since the server handles one connection at a time."""
    return wait_until(lambda: str(ask()), timeout_s=_TIMEOUT_S, poll_s=0.1, ignore=(OSError, AssertionError))


def _check_logs_exec_and_port_forward(cluster: EngineCluster) -> None:
    kubectl = cluster.kubectl
    assert kubectl("logs", "client", "-c", "main").split() == ["first", "DB_SERVICE_PORT=5432"]
    assert kubectl("exec", "-i", "client", "-c", "main", "--", "cat", stdin="by stdin") == "by stdin"
    assert kubectl.run("exec", "client", "-c", "main", "--", "sh", "-c", "exit 7").returncode == 7
    assert "Read-only" in kubectl.fails("exec", "client", "-c", "main", "--", "touch", "/usr/new")
    assert kubectl("exec", "web", "--", "sh", "-c", "echo $FROM") == "loaded\n"
    port = free_port()
    with kubectl.running("port-forward", "pod/web", f"{port}:80"):
        assert _reply(lambda: fetch(f"127.0.0.1:{port}")) == "hello"
    assert "client" in kubectl("top", "pods", "--no-headers")


def _check_runtime_handlers(cluster: EngineCluster) -> None:
    """A known runtime handler starts the pod; an unknown handler is reported as an event."""
    runtime_class = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    _apply(
        cluster,
        {**runtime_class, "metadata": {"name": "known"}, "handler": "runc"},
        {**runtime_class, "metadata": {"name": "unknown"}, "handler": "nothing"},
        pod("by-class", LOADED, ["sleep", "1000000"], runtimeClassName="known"),
        pod("by-nothing", LOADED, ["sleep", "1000000"], runtimeClassName="unknown"),
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod/by-class", "--timeout=60s")
    _reply(lambda: _check_sandbox_events(cluster))
    cluster.kubectl("delete", "pod", "by-nothing", "by-class")


def _check_sandbox_events(cluster: EngineCluster) -> None:
    output = cluster.kubectl("get", "events", "--field-selector", "involvedObject.name=by-nothing")
    assert "FailedCreatePodSandBox" in output
    assert 'no runtime for "nothing" is configured' in output


def _containers(cluster: EngineCluster) -> str:
    return cluster.kubectl.jsonpath("get", "pods", "{.items[*].status.containerStatuses[*].containerID}")
