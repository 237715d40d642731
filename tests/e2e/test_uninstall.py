"""`sampan down --delete` removes everything of a cluster with services, network policies, load balancers and Ingress,
even after kill -9, and does not touch a second cluster."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.cluster.nodes.abandoned_node import root_cgroup_of
from sampan.host.netlink.routing import open_route_socket
from sampan.network.load_balancer.routes import address_gateways
from sampan.network.nodes import bridge_of_nodes
from sampan.network.nodes.addresses import named_namespace
from sampan.runtimes.kernel import mounts_below
from tests.cli.command import Sampan, get
from tests.e2e.machine import NEEDS_NODE_NETWORKS, PORT, Machine, address_of, expose, network_state, response, wait_for

pytestmark = NEEDS_NODE_NETWORKS

_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
_CGROUPS = Path("/sys/fs") if _UNIFIED.exists() else Path("/sys/fs/cgroup")
"""The directory with the roots of the cgroup hierarchies."""


def traces(machine: Machine) -> dict[str, list[str]]:
    """Return everything of a cluster that is outside of its data directory, and its mounts."""
    root, bridge = machine.root, bridge_of_nodes(machine.root)
    names = {name: index for index, name in socket.if_nameindex()}
    with open_route_socket() as netlink:
        routes = address_gateways(netlink, names[bridge]) if bridge in names else {}
    return {
        **network_state(root),
        "load balancer routes": sorted(routes),
        "mounts": [str(path) for path in mounts_below(root)],
        "named namespaces": [node for node in ("node-0", "node-1") if named_namespace(root, node).is_symlink()],
        "cgroups": [str(path) for path in _CGROUPS.glob(f"*{root_cgroup_of(root, 'node-0')}")],
        "processes": [str(pid) for pid in processes_of(machine)],
    }


def processes_of(machine: Machine) -> Iterator[int]:
    """Yield the processes that name the home of the cluster in their command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if str(machine.sampan.home).encode() in words:
            yield int(path.parent.name)


def start(home: Path, nodes: int, *words: str) -> Machine:
    sampan = Sampan(home)
    sampan("up", "--detach", "--nodes", str(nodes), "--runtime", "oci", *words)
    machine = Machine(sampan)
    machine.create("web", "node-0", labels={"app": "web"})
    machine.pod_ip("web")
    expose(machine, "web", "web", {"port": 80, "targetPort": PORT})
    return machine


def apply(machine: Machine, *objects: dict[str, Any]) -> None:
    manifest = machine.sampan.home / "objects.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    machine.sampan("kubectl", "apply", "-f", str(manifest))


POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "web"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": PORT}]}]},
}
INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"name": "web"},
    "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
}


def ingress_address(machine: Machine) -> str:
    rows = machine.api("ingress/web")["status"].get("loadBalancer", {}).get("ingress") or [{}]
    return str(rows[0].get("ip", ""))


@pytest.fixture
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    homes = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    yield homes
    for home in homes:
        Sampan(home).run("down", "--delete")


def test_down_delete_cleans_up_a_killed_cluster_and_spares_another_cluster(homes: list[Path]) -> None:
    other = start(homes[1], 1)
    other_address = address_of(other, "web")
    assert wait_for(lambda: response(f"http://{other_address}/")).startswith("web ")
    machine = start(homes[0], 2, "--ingress")
    apply(machine, POLICY, INGRESS)
    address = address_of(machine, "web")
    assert wait_for(lambda: response(f"http://{address}/")).startswith("web ")
    balancer = wait_for(lambda: ingress_address(machine))
    assert wait_for(lambda: response(f"http://{balancer}/")).startswith("web ")
    before, present = traces(other), traces(machine)
    assert all(present.values()), present
    os.kill(machine.sampan.read_running_file()["pid"], signal.SIGKILL)
    assert get(f"http://{address}/")[0] == 200  # services outlive the process of the cluster
    machine.sampan("down", "--delete")
    assert not any(traces(machine).values()), traces(machine)
    assert not machine.sampan.directory().exists()
    assert traces(other) == before
    assert get(f"http://{other_address}/")[1].startswith("web ")
    other.sampan("down", "--delete")
    assert not any(traces(other).values()), traces(other)
