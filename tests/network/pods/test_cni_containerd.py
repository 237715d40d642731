"""Real containerd connects pods by the conflist, in the same way as `BridgeNetwork` does."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import BridgeConfig, CniNetwork
from sampan.network.pods.cni import RESULT_DIRECTORY, missing_plugins
from sampan.network.pods.config import hardware_for
from sampan.network.pods.nft import run_nft
from sampan.runtimes.config import PortMapping
from sampan.runtimes.cri import CriRuntime
from sampan.testing.runtime_conformance import Subject
from sampan.testing.runtime_conformance.bench import open_bench
from tests.eventually import eventually
from tests.network.pods import frames
from tests.network.pods.lab import NODE_IP, OUTSIDE_IP, Lab, listening, needs_network
from tests.runtimes import engines, leftovers

_MISSING = engines.missing_requirement("containerd", "runc", "iptables")
_BRIDGE = f"t{os.getpid():x}"
"""A name of this process: the results of the plugins, which name the bridge, are in one directory of the machine."""
_GREETING = "echo hello | nc -l -p 80"

pytestmark = [
    needs_network,
    pytest.mark.skipif(bool(_MISSING), reason=_MISSING or "installed"),
    pytest.mark.skipif(bool(missing_plugins()), reason="the standard CNI plugins are not installed"),
]


def test_containerd_connects_a_pod_by_the_conflist(lab: Lab, tmp_path: Path) -> None:
    before = lab.links()

    async def main() -> None:
        with engines.containerd() as engine:
            network = CniNetwork(
                config=BridgeConfig(bridge=_BRIDGE),
                state=tmp_path / "addresses",
                clock=RealClock(),
                directory=engine.directory / "cni",
            )
            (engine.directory / "cni" / "10-tests.conflist").unlink()
            await network.apply(["10.77.0.0/24"])
            await _check_pod(lab, engine, tmp_path, network)
            await network.remove_all()

    lab.run(main)
    assert lab.links() == before


async def _check_pod(lab: Lab, engine: engines.Engine, directory: Path, network: CniNetwork) -> None:
    subject = Subject(
        open=lambda on_change: CriRuntime(
            endpoint=str(engine.socket),
            directory=engine.directory / "node",
            node="checks",
            clock=RealClock(),
            on_pod_change=on_change,
            relist_s=0.1,
            network=network,
        ),
        directory=directory,
        image=engines.BUSYBOX,
        left=lambda uid: leftovers.find_leftovers(uid, engine.directory),
    )
    async with open_bench(subject) as bench:
        pod = await bench.sandbox(ports=[PortMapping(container_port=80, host_port=8080)])
        assert list(bench.runtime.pod_report(pod).ips) == ["10.77.0.2"]
        await asyncio.to_thread(_check_that_the_pod_is_held, lab)
        await bench.start(pod, f"while true; do {_GREETING}; done")
        for namespace, to in (
            (lab.node, ("10.77.0.2", 80)),
            (lab.outside, (NODE_IP, 8080)),
            (lab.node, (NODE_IP, 8080)),
        ):
            assert await _receive(namespace, to) == b"hello\n"
        with listening(lab.outside, 82) as server:
            request = asyncio.ensure_future(bench.output(pod, f"echo | nc {OUTSIDE_IP} 82"))
            client, source = await asyncio.to_thread(server.accept)
            client.close()
            assert source[0] == f"::ffff:{NODE_IP}"
            await request


def _check_that_the_pod_is_held(lab: Lab) -> None:
    [file] = RESULT_DIRECTORY.glob(f"sampan-{_BRIDGE}-*")
    own = json.loads(file.read_bytes())["result"]["interfaces"][2]
    node = hardware_for("10.77.0.1")
    run_in_network(lab.node, lambda: run_nft("list", "table", "bridge", f"sampan-frames-{_BRIDGE}"))
    with listening(lab.node, 9, socket.SOCK_DGRAM) as server, frames.wires(Path(own["sandbox"])) as (wire,):
        for source in ("10.77.0.200", "10.77.0.2"):
            packet = frames.udp(source, "10.77.0.1", source.encode())
            wire.send(frames.ethernet(own["mac"], node, frames.IPV4, packet))
        assert server.recvfrom(20)[0] == b"10.77.0.2"


async def _receive(namespace: Path, to: tuple[str, int]) -> bytes:
    """Return what the server sends. It may not listen yet, and it restarts after each connection."""

    def receive() -> bytes:
        with socket.create_connection(to, timeout=60) as link:
            return link.recv(100)

    return await eventually(
        lambda: asyncio.to_thread(run_in_network, namespace, receive), ignore=(ConnectionRefusedError,)
    )
