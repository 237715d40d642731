"""DNS of a real cluster: pods resolve services, and other names through an upstream resolver of the machine."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message

from tests.cli.command import TIMEOUT_S, Sampan
from tests.eventually import wait_until
from tests.network.dns.upstream import FakeUpstream, denial, reply
from tests.ports import free_port
from tests.skips import requires

needs_containers = requires("root", "crun or runc")

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {type: ExternalName, externalName: www.upstream.test}
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: web}}
spec:
  hostname: pet
  subdomain: web
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  hostAliases: [{ip: 192.0.2.77, hostnames: [alias.test]}]
  containers: [{name: shell, image: sampan.local/host, command: [sleep, "600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: default-policy}
spec:
  dnsPolicy: Default
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: sampan.local/host, command: [sleep, "600"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: host-network}
spec:
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: shell, image: sampan.local/host, command: [sleep, "600"]}]
"""
PODS = ("client", "default-policy", "host-network")


def _handle(query: dns.message.Message, _: str) -> dns.message.Message:
    question = query.question[0]
    if question.name.to_text() == "www.upstream.test." and question.rdtype.name == "A":
        return reply(query, "A 192.0.2.9")
    return denial(query)


@contextmanager
def upstream_resolver() -> Iterator[str]:
    """Run an upstream resolver on a loopback address of the machine, which no pod can reach by itself."""
    started, stop, addresses = threading.Event(), asyncio.Event(), list[str]()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with FakeUpstream(_handle) as upstream:
            addresses.append(str(upstream.address))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert started.wait(TIMEOUT_S)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def resolve_in_pod(sampan: Sampan, pod: str, name: str) -> str:
    """Return the first address of a name as the C library of the pod resolves it; empty if it does not exist."""
    script = f"getent ahostsv4 {name} || true"
    return sampan("kubectl", "exec", pod, "--", "sh", "-c", script).partition(" ")[0].strip()


def pod_address(sampan: Sampan, pod: str) -> str:
    address = re.search(r"^  podIP: (\S+)$", sampan("kubectl", "get", "pod", pod, "-o", "yaml"), re.MULTILINE)
    assert address is not None
    return address[1]


def wait_for_pods(sampan: Sampan) -> None:
    def are_running() -> bool:
        return all("phase: Running" in sampan("kubectl", "get", "pod", pod, "-o", "yaml") for pod in PODS)

    wait_until(are_running, timeout_s=TIMEOUT_S, poll_s=0.1, describe=lambda: sampan("kubectl", "describe", "pods"))


@needs_containers
def test_pods_resolve_services_and_upstream_names(sampan: Sampan) -> None:
    with upstream_resolver() as upstream:
        sampan(
            *("up", "--detach", "--secure-port", str(free_port()), "--store", "memory", "--runtime", "oci"),
            *("--cluster-domain", "corp.internal", "--dns-upstream", upstream),
        )
        shown = " ".join(sampan("status").split())
        assert f"10.96.0.10 for corp.internal, forwards to {upstream} (set explicitly)" in shown
        manifest = sampan.home / "objects.yaml"
        manifest.write_text(OBJECTS)
        sampan("kubectl", "create", "-f", str(manifest))
        wait_for_pods(sampan)
        assert sampan("kubectl", "exec", "client", "--", "cat", "/etc/resolv.conf").splitlines() == [
            "search default.svc.corp.internal svc.corp.internal corp.internal",
            "nameserver 10.96.0.10",
            "options ndots:5",
        ]
        address = pod_address(sampan, "client")
        wait_until(lambda: resolve_in_pod(sampan, "client", "web") == address, timeout_s=TIMEOUT_S, poll_s=0.1)
        for name, expected in {
            "kubernetes": "10.96.0.1",
            "kubernetes.default.svc": "10.96.0.1",
            "kube-dns.kube-system.svc.corp.internal": "10.96.0.10",
            "pet.web": address,
            "outside": "192.0.2.9",
            "www.upstream.test": "192.0.2.9",
            "alias.test": "192.0.2.77",
            "nothing": "",
        }.items():
            assert (name, resolve_in_pod(sampan, "client", name)) == (name, expected)
        assert resolve_in_pod(sampan, "default-policy", "www.upstream.test") == "192.0.2.9"
        assert resolve_in_pod(sampan, "host-network", "kubernetes.default") == "10.96.0.1"
        script = "curl -sS --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
        url = "https://kubernetes.default.svc.corp.internal/livez"
        assert sampan("kubectl", "exec", "client", "--", "sh", "-c", f"{script} {url}") == "ok"
