"""Networks of pods on Docker: a network of Docker, or the pod network of the node."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.runtimes.config import PortMapping
from sampan.runtimes.docker import DockerRuntime
from sampan.runtimes.docker.client import DockerClient
from sampan.runtimes.network import UNLIMITED, NoNetwork, PodBandwidth
from sampan.testing.runtime_conformance import Subject
from sampan.testing.runtime_conformance.bench import RuntimeBench, open_bench
from tests.eventually import eventually
from tests.ports import free_ports
from tests.reservations import reserved_subnet
from tests.runtimes import engines, leftovers
from tests.runtimes.engines import BUSYBOX, Engine

_NEEDED = ("dockerd", "containerd", "runc")
pytestmark = pytest.mark.skipif(
    bool(engines.missing_requirement(*_NEEDED)), reason=engines.missing_requirement(*_NEEDED)
)


@pytest.fixture
def subnet() -> Iterator[str]:
    with reserved_subnet("198.19") as subnet:
        yield subnet


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.docker() as engine:
        yield engine


def run_with_bench(
    engine: Engine, directory: Path, work: Callable[[RuntimeBench], Awaitable[None]], **settings: Any
) -> None:
    def open_runtime(on_change: Callable[[str], None]) -> DockerRuntime:
        return DockerRuntime(
            socket=str(engine.socket),
            directory=directory / "node",
            node="n",
            clock=RealClock(),
            on_pod_change=on_change,
            **settings,
        )

    async def main() -> None:
        subject = Subject(
            open=open_runtime,
            directory=directory,
            image=BUSYBOX,
            left=lambda uid: leftovers.find_leftovers(uid, engine.directory),
        )
        async with asyncio.timeout(150), open_bench(subject) as bench:
            await work(bench)

    asyncio.run(main())


@pytest.fixture
def own_network(engine: Engine, subnet: str) -> Iterator[str]:
    """Create a Docker network with its own bridge, because the default bridge may be in use."""
    body = {
        "Name": "checks",
        "Driver": "bridge",
        "Options": {"com.docker.network.bridge.name": f"sd{engine.directory.name[-8:]}"},
        "IPAM": {"Config": [{"Subnet": subnet}]},
    }

    async def call(method: str) -> None:
        client = DockerClient(str(engine.socket))
        try:
            await (
                client.post("/networks/create", body=body) if method == "create" else client.delete("/networks/checks")
            )
        finally:
            await client.close()

    asyncio.run(call("create"))
    yield "checks"
    asyncio.run(call("delete"))


def test_pod_on_a_docker_network_is_reachable(engine: Engine, own_network: str, subnet: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)

    async def work(bench: RuntimeBench) -> None:
        pod = await bench.sandbox(ports=[PortMapping(container_port=80, host_port=port, host_ip="127.0.0.1")])
        (ip,) = bench.runtime.pod_report(pod).ips
        assert ipaddress.ip_address(ip) in ipaddress.ip_network(subnet)
        await bench.start(pod, "exec busybox nc -ll -p 80 -e busybox cat")
        assert await _echo("127.0.0.1", port) == b"hello\n"
        assert await _echo(ip, 80) == b"hello\n"
        (whole, *_) = await bench.runtime.stats(pod)
        assert (whole.name, whole.received_bytes != 0) == ("", True)

    run_with_bench(engine, tmp_path, work, own_network=own_network)


async def _echo(host: str, port: int) -> bytes:
    async def exchange() -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"hello\n")
        try:
            return await reader.readline()
        finally:
            writer.close()

    return await eventually(exchange, ignore=(OSError,))


class _RecordingNetwork(NoNetwork):
    """Records the links of the namespaces that it attaches."""

    def __init__(self) -> None:
        self.attached: dict[str, list[str]] = {}

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: PodBandwidth = UNLIMITED
    ) -> Sequence[str]:
        def links() -> list[str]:
            with socket.socket() as link:
                link.bind(("127.0.0.1", 0))  # the loopback interface must be up
            return [name for _, name in socket.if_nameindex()]

        self.attached[uid] = run_in_network(namespace, links)
        return self.addresses(uid)

    async def detach(self, uid: str) -> None:
        self.attached.pop(uid, None)

    def addresses(self, uid: str) -> Sequence[str]:
        return ["192.0.2.7"] if uid in self.attached else []


def test_pod_is_attached_to_and_detached_from_the_node_network(engine: Engine, tmp_path: Path) -> None:
    network = _RecordingNetwork()

    async def work(bench: RuntimeBench) -> None:
        pod = await bench.sandbox()
        assert network.attached == {pod.metadata.uid: ["lo"]}
        assert list(bench.runtime.pod_report(pod).ips) == ["192.0.2.7"]
        await bench.runtime.stop_sandbox(pod)
        assert network.attached == {}

    run_with_bench(engine, tmp_path, work, network=network)
