"""A node whose API server starts late, or is temporarily unavailable."""

import asyncio
from pathlib import Path

from aiohttp import ClientSession

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, Pod
from sampan.cli.components.component_port import tls_of
from sampan.kubelet.server.ports import PortsConfig, serve_kubelet
from sampan.machinery.client import DeleteParameters
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, manifest, phase, real_node
from tests.ports import free_port

OWN = f"own-{NAME}"


async def pod_names(port: int) -> list[str]:
    """Return the names of the pods at /pods."""
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/pods") as response:
        return [item["metadata"]["name"] for item in (await response.json(content_type=None))["items"]]


async def wait_until_listening(port: int) -> None:
    async def is_served() -> bool:
        try:
            await pod_names(port)
        except OSError:
            return False
        return True

    await eventually(is_served)


def write_manifest(tmp_path: Path, name: str) -> Path:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / f"{name}.json").write_text(manifest(name))
    return directory


def pod(name: str) -> Pod:
    value = json.read_any(manifest(name).encode())
    value["metadata"]["namespace"], value["spec"]["nodeName"] = "default", NAME
    return json.from_value(value, Pod)


async def test_static_pods_run_before_the_api_server_is_available(tmp_path: Path) -> None:
    line, port = Line(), free_port()
    ports = PortsConfig(tls=tls_of(None, None, name=NAME), address="127.0.0.1", port=0, read_only_port=port)
    async with (
        real_node(tmp_path, line, static_pod_path=write_manifest(tmp_path, "own")) as kubelet,
        asyncio.TaskGroup() as group,
    ):
        serving = group.create_task(serve_kubelet(kubelet, ports))
        await eventually(lambda: phase(kubelet, OWN) == "Running")
        assert not kubelet.ready.is_set()
        async with asyncio.timeout(60):
            await wait_until_listening(port)
        assert await pod_names(port) == [OWN]
        async with Cluster(components=("apiserver", "controllers")) as cluster:
            line.open(cluster.assembly.transport)
            async with asyncio.timeout(60):
                await kubelet.ready.wait()
            node = await cluster.client.for_kind(Node).get(NAME)
            assert node.status.nodeInfo.containerRuntimeVersion.startswith("process://")
            await eventually(lambda: kubelet.records[next(iter(kubelet.records))].spec.mirror is not None)
            mirror = await cluster.client.for_kind(Pod).get(OWN, "default")
            assert mirror.metadata.ownerReferences[0].uid == node.metadata.uid
            await line.cut()
            serving.cancel()


async def test_pods_keep_running_while_the_api_server_is_unavailable(tmp_path: Path) -> None:
    line = Line()
    async with Cluster(components=("apiserver", "controllers")) as cluster:
        line.open(cluster.assembly.transport)
        async with real_node(tmp_path, line, static_pod_path=tmp_path / "manifests") as kubelet:
            await kubelet.ready.wait()
            for name in ("stays", "goes"):
                await cluster.client.for_kind(Pod).create(pod(name))
            await eventually(lambda: {phase(kubelet, "stays"), phase(kubelet, "goes")} == {"Running"})
            before = kubelet.runtime.pod_report(kubelet.records[uid_of(kubelet.pods(), "stays")].pod).containers
            await line.cut()
            await cluster.client.for_kind(Pod).delete("goes", "default", options=DeleteParameters(grace_period_s=0))
            write_manifest(tmp_path, "own")
            await eventually(lambda: phase(kubelet, OWN) == "Running")
            line.open(cluster.assembly.transport)
            await eventually(lambda: kubelet.find("default", "goes") is None)
            await eventually(lambda: len(kubelet.runtime.list_pod_uids()) == 2)
            await cluster.client.for_kind(Pod).create(pod("comes"))
            await eventually(lambda: phase(kubelet, "comes") == "Running")
            after = kubelet.runtime.pod_report(kubelet.records[uid_of(kubelet.pods(), "stays")].pod).containers
            assert [report.id for report in after] == [report.id for report in before]
            await line.cut()


def uid_of(pods: list[Pod], name: str) -> str:
    return next(pod.metadata.uid for pod in pods if pod.metadata.name == name)
