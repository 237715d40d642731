"""Conformance tests of sig-storage for downward API volumes, projected downward API and combined projections. The first
paragraph of a docstring is the official test name."""

from collections.abc import Callable
from typing import Any

from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values import quantity
from tests.e2e.conformance.storage.real_node import NODE, RealNode, concurrent_scenario

Make = Callable[..., dict[str, Any]]
NAME = {"path": "podname", "fieldRef": {"fieldPath": "metadata.name"}}
RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1250m", "memory": "64Mi"}}


def downward_api_volume(*items: dict[str, Any], mode: int | None = None) -> dict[str, Any]:
    source: dict[str, Any] = {"items": list(items)}
    return {"name": "v", "downwardAPI": source | ({"defaultMode": mode} if mode is not None else {})}


def projected_volume(*items: dict[str, Any], mode: int | None = None) -> dict[str, Any]:
    source: dict[str, Any] = {"sources": [{"downwardAPI": {"items": list(items)}}]}
    return {"name": "v", "projected": source | ({"defaultMode": mode} if mode is not None else {})}


def resource(name: str, path: str = "value") -> dict[str, Any]:
    return {"path": path, "resourceFieldRef": {"containerName": "c", "resource": name}}


async def check_pod_name(node: RealNode, make: Make, *, mode: int | None = None, item: int | None = None) -> list[str]:
    file = {**NAME, **({"mode": item} if item is not None else {})}
    output = await node.output("cat /v/podname; echo; stat -L -c %A /v/podname", make(file, mode=mode))
    name, shown = output.splitlines()
    assert name == "p"
    return [shown]


async def check_resource(node: RealNode, make: Make, name: str, value: str) -> None:
    assert await node.output("cat /v/value", make(resource(name)), container={"resources": RESOURCES}) == value


async def check_allocatable(node: RealNode, make: Make, name: str) -> None:
    allocatable = quantity.parse((await node.client.for_kind(Node).get(NODE)).status.allocatable[name])
    assert await node.output("cat /v/value", make(resource(f"limits.{name}"))) == str(allocatable.value())


async def check_updates(node: RealNode, make: Make, what: str) -> None:
    item = {"path": what, "fieldRef": {"fieldPath": f"metadata.{what}"}}
    script = f"until grep -q key3 /v/{what}; do sleep 0.1; done; cat /v/{what}"
    metadata = {what: {"key1": "value1", "key2": "value2"}}
    await node.wait_until_running(await node.start(script, make(item), metadata=metadata))
    await node.change(Pod, "p", metadata={what: {"key3": "value3"}})
    lines = node.output_of(await node.wait_until_succeeded("p")).splitlines()
    assert [line for line in lines if line.startswith("key")] == ['key1="value1"', 'key2="value2"', 'key3="value3"']


@concurrent_scenario
async def test_pod_name(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide podname only [NodeConformance] [Conformance]"""
    await check_pod_name(node, downward_api_volume)


@concurrent_scenario
async def test_default_mode(node: RealNode) -> None:
    """[sig-storage] Downward API volume should set DefaultMode on files [LinuxOnly] [NodeConformance] [Conformance]"""
    assert await check_pod_name(node, downward_api_volume, mode=0o400) == ["-r--------"]


@concurrent_scenario
async def test_item_mode(node: RealNode) -> None:
    """[sig-storage] Downward API volume should set mode on item file [LinuxOnly] [NodeConformance] [Conformance]"""
    assert await check_pod_name(node, downward_api_volume, item=0o400) == ["-r--------"]


@concurrent_scenario
async def test_label_updates(node: RealNode) -> None:
    """[sig-storage] Downward API volume should update labels on modification [NodeConformance] [Conformance]"""
    await check_updates(node, downward_api_volume, "labels")


@concurrent_scenario
async def test_annotation_updates(node: RealNode) -> None:
    """[sig-storage] Downward API volume should update annotations on modification [NodeConformance] [Conformance]"""
    await check_updates(node, downward_api_volume, "annotations")


@concurrent_scenario
async def test_cpu_limit(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide container's cpu limit [NodeConformance] [Conformance]"""
    await check_resource(node, downward_api_volume, "limits.cpu", "2")


@concurrent_scenario
async def test_cpu_request(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide container's cpu request [NodeConformance] [Conformance]"""
    await check_resource(node, downward_api_volume, "requests.cpu", "1")


@concurrent_scenario
async def test_memory_limit(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide container's memory limit [NodeConformance] [Conformance]"""
    await check_resource(node, downward_api_volume, "limits.memory", "67108864")


@concurrent_scenario
async def test_memory_request(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide container's memory request [NodeConformance] [Conformance]"""
    await check_resource(node, downward_api_volume, "requests.memory", "33554432")


@concurrent_scenario
async def test_allocatable_cpu(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide node allocatable (cpu) as default cpu limit if the limit is not
    set [NodeConformance]"""
    await check_allocatable(node, downward_api_volume, "cpu")


@concurrent_scenario
async def test_allocatable_memory(node: RealNode) -> None:
    """[sig-storage] Downward API volume should provide node allocatable (memory) as default memory limit if the limit
    is not set [NodeConformance]"""
    await check_allocatable(node, downward_api_volume, "memory")


@concurrent_scenario
async def test_projected_pod_name(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide podname only [NodeConformance] [Conformance]"""
    await check_pod_name(node, projected_volume)


@concurrent_scenario
async def test_projected_default_mode(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should set DefaultMode on files [LinuxOnly] [NodeConformance]"""
    assert await check_pod_name(node, projected_volume, mode=0o400) == ["-r--------"]


@concurrent_scenario
async def test_projected_item_mode(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should set mode on item file [LinuxOnly] [NodeConformance] [Conformance]"""
    assert await check_pod_name(node, projected_volume, item=0o400) == ["-r--------"]


@concurrent_scenario
async def test_projected_label_updates(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should update labels on modification [NodeConformance] [Conformance]"""
    await check_updates(node, projected_volume, "labels")


@concurrent_scenario
async def test_projected_annotation_updates(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should update annotations on modification [NodeConformance] [Conformance]"""
    await check_updates(node, projected_volume, "annotations")


@concurrent_scenario
async def test_projected_cpu_limit(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide container's cpu limit [NodeConformance] [Conformance]"""
    await check_resource(node, projected_volume, "limits.cpu", "2")


@concurrent_scenario
async def test_projected_cpu_request(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide container's cpu request [NodeConformance] [Conformance]"""
    await check_resource(node, projected_volume, "requests.cpu", "1")


@concurrent_scenario
async def test_projected_memory_limit(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide container's memory limit [NodeConformance] [Conformance]"""
    await check_resource(node, projected_volume, "limits.memory", "67108864")


@concurrent_scenario
async def test_projected_memory_request(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide container's memory request [NodeConformance] [Conformance]"""
    await check_resource(node, projected_volume, "requests.memory", "33554432")


@concurrent_scenario
async def test_projected_allocatable_cpu(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide node allocatable (cpu) as default cpu limit if the limit is
    not set [NodeConformance]"""
    await check_allocatable(node, projected_volume, "cpu")


@concurrent_scenario
async def test_projected_allocatable_memory(node: RealNode) -> None:
    """[sig-storage] Projected downwardAPI should provide node allocatable (memory) as default memory limit if the
    limit is not set [NodeConformance]"""
    await check_allocatable(node, projected_volume, "memory")


@concurrent_scenario
async def test_projected_volume_with_all_sources(node: RealNode) -> None:
    """[sig-storage] Projected combined should project all components that make up the projection API [Projection]
    [NodeConformance]"""
    await node.config_map("m", data={"configmap-data": "configmap-value-1"})
    await node.secret("s", stringData={"secret-data": "secret-value-1"})
    items = [
        NAME,
        *(resource(name, name) for name in ("limits.cpu", "requests.cpu", "limits.memory", "requests.memory")),
    ]
    sources = [{"secret": {"name": "s"}}, {"configMap": {"name": "m"}}, {"downwardAPI": {"items": items}}]
    script = (
        "for f in podname secret-data configmap-data limits.cpu requests.cpu limits.memory requests.memory; "
        "do cat /v/$f; echo; done"
    )
    volume = {"name": "v", "projected": {"sources": sources}}
    output = await node.output(script, volume, container={"resources": RESOURCES})
    assert output.splitlines() == ["p", "secret-value-1", "configmap-value-1", "2", "1", "67108864", "33554432"]
