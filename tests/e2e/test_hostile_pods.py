"""Hostile pods of a user who may create pods, on `sampan up` with real containers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tests.cli.command import Sampan
from tests.cli.plain_user import USER_MARKS, plain_user
from tests.e2e.engines.engine_cluster import engine_cluster
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.eventually import wait_until
from tests.ports import free_port
from tests.runtimes import engines
from tests.skips import requires

pytestmark = [
    requires("root", "crun or runc"),
    pytest.mark.skipif(bool(engines.missing_requirement()), reason=engines.missing_requirement() or "installed"),
    pytest.mark.skipif(find_kubectl() is None, reason="there is no kubectl here"),
]

_SERVER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 9998))
print("ready", flush=True)
while True:
    data, (source, _) = server.recvfrom(100)
    print(data.decode(), source, flush=True)
"""
_SEND = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"honest", (sys.argv[1], 9998))
"""
_SPOOF = """
import socket, struct, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
target, *sources = sys.argv[1:]
for source in sources:
    udp = struct.pack("!HHHH", 4000, 9998, 15, 0) + b"spoofed"
    head = struct.pack("!BBHHHBBH", 0x45, 0, 0, 7, 0, 64, 17, 0) + socket.inet_aton(source) + socket.inet_aton(target)
    raw.sendto(head + udp, (target, 0))
    print("sent", source)
"""


@pytest.fixture(scope="module", params=["root", pytest.param("rootless", marks=USER_MARKS), "cri", "docker"])
def sampan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sampan]:
    """Yield a running cluster of root, one of another user in a user namespace, and those of containerd and Docker."""
    directory = tmp_path_factory.mktemp("c")
    if request.param in ("cri", "docker"):
        with engine_cluster(request.param, directory) as cluster:
            cluster.start()
            yield cluster.sampan
        return
    with plain_user(directory) if request.param == "rootless" else nullcontext(Sampan(directory)) as sampan:
        try:
            sampan("up", "--detach", "--secure-port", str(free_port()), "--runtime", "oci")
            yield sampan
        finally:
            sampan("down")


@pytest.fixture(scope="module")
def kubectl(sampan: Sampan, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    directory = sampan.directory()
    return Kubectl(
        program=find_kubectl() or "", kubeconfig=directory / "admin.kubeconfig", home=tmp_path_factory.mktemp("k")
    )


def apply(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def pod(name: str, *command: str, capabilities: list[str] | None = None, **spec: Any) -> dict[str, Any]:
    security = {"capabilities": {"add": capabilities or []}}
    container = {"name": "c", "image": "sampan.local/host", "command": command, "securityContext": security}
    whole = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": whole}


def policy(name: str, app: str, **spec: Any) -> dict[str, Any]:
    whole = {"podSelector": {"matchLabels": {"app": app}}, **spec}
    metadata = {"name": name}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": whole}


def run_to_completion(kubectl: Kubectl, manifest: dict[str, Any]) -> str:
    name = manifest["metadata"]["name"]
    apply(kubectl, manifest)
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=90s", f"pod/{name}")
    return kubectl("logs", name)


def test_a_pod_that_may_not_connect_passes_no_policy_with_the_address_of_another(kubectl: Kubectl) -> None:
    admitted = [{"podSelector": {"matchLabels": {"app": "admitted"}}}]
    apply(
        kubectl,
        policy("protect", "server", ingress=[{"from": admitted}]),
        policy("isolate", "hostile", policyTypes=["Ingress", "Egress"]),
        pod("server", "python3", "-c", _SERVER),
        pod("admitted", "sleep", "600"),
    )
    kubectl("wait", "--for=condition=Ready", "--timeout=90s", "pod/server", "pod/admitted")
    server, other = (kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}") for name in ("server", "admitted"))
    wait_until(lambda: "ready" in kubectl("logs", "server"), timeout_s=60)
    sources = [other, server.rpartition(".")[0] + ".250", "8.8.8.8"]
    output = run_to_completion(kubectl, pod("hostile", "python3", "-c", _SPOOF, server, *sources))
    assert output.splitlines() == [f"sent {source}" for source in sources]
    kubectl("exec", "admitted", "--", "python3", "-c", _SEND, server)
    wait_until(lambda: "honest" in kubectl("logs", "server"), timeout_s=60)
    assert kubectl("logs", "server").splitlines() == ["ready", f"honest {other}"]


def test_a_container_with_sys_ptrace_sees_no_file_of_the_machine(kubectl: Kubectl, sampan: Sampan) -> None:
    key = sampan.directory() / "pki/ca.key"
    assert key.exists()
    script = (
        f"cat /proc/1/root{key} 2>&1; tr '\\0' '\\n' < /proc/1/environ; echo; ls /proc/1/root; readlink /proc/1/exe"
    )
    manifest = pod("tracer", "sh", "-c", script, capabilities=["SYS_PTRACE"], shareProcessNamespace=True)
    first, *variables = run_to_completion(kubectl, manifest).splitlines()
    end = variables.index("")
    assert first == f"cat: /proc/1/root{key}: No such file or directory"
    assert {line.partition("=")[0] for line in variables[:end]} <= {"HOME", "HOSTNAME", "PATH"}
    *names, program = variables[end + 1 :]
    assert set(names) <= {"dev", "etc", "pause", "proc", "sys"}
    assert program == "/pause"
