"""Conformance tests of sig-storage for subPath. The first paragraph of a docstring is the official test name."""

from typing import Any

from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

CONTENT = {"configmap-key": "configmap content", "secret-key": "secret content"}


async def read(node: RealNode, volume: dict[str, Any], subpath: str, target: str = "/part/file") -> str:
    """Return the content at the subPath mount, followed by the content of the same file in a mount of the whole
    volume."""
    mounts = [{"name": "v", "mountPath": target, "subPath": subpath}, {"name": "v", "mountPath": "/whole"}]
    return await node.output(f"cat {target}; echo; cat /whole/{subpath}", volume, mounts=mounts)


@concurrent_scenario
async def test_secret(node: RealNode) -> None:
    """[sig-storage] Subpath Atomic writer volumes should support subpaths with secret pod [Conformance]"""
    await node.secret("s", stringData=CONTENT)
    output = await read(node, {"name": "v", "secret": {"secretName": "s"}}, "secret-key")
    assert output.splitlines() == ["secret content"] * 2


@concurrent_scenario
async def test_config_map(node: RealNode) -> None:
    """[sig-storage] Subpath Atomic writer volumes should support subpaths with configmap pod [Conformance]"""
    await node.config_map("m", data=CONTENT)
    output = await read(node, {"name": "v", "configMap": {"name": "m"}}, "configmap-key")
    assert output.splitlines() == ["configmap content"] * 2


@concurrent_scenario
async def test_existing_file_as_mount_path(node: RealNode) -> None:
    """[sig-storage] Subpath Atomic writer volumes should support subpaths with configmap pod with mountPath of
    existing file [Conformance]"""
    await node.config_map("m", data=CONTENT)
    volume = {"name": "v", "configMap": {"name": "m"}}
    output = await read(node, volume, "configmap-key", "/etc/resolv.conf")
    assert output.splitlines() == ["configmap content"] * 2


@concurrent_scenario
async def test_downward_api(node: RealNode) -> None:
    """[sig-storage] Subpath Atomic writer volumes should support subpaths with downward pod [Conformance]"""
    item = {"path": "downward/podname", "fieldRef": {"fieldPath": "metadata.name"}}
    output = await read(node, {"name": "v", "downwardAPI": {"items": [item]}}, "downward/podname")
    assert output.splitlines() == ["p", "p"]


@concurrent_scenario
async def test_projected(node: RealNode) -> None:
    """[sig-storage] Subpath Atomic writer volumes should support subpaths with projected pod [Conformance]"""
    await node.config_map("m", data=CONTENT)
    item = {"key": "configmap-key", "path": "projected/configmap-key"}
    source = {"sources": [{"configMap": {"name": "m", "items": [item]}}]}
    output = await read(node, {"name": "v", "projected": source}, "projected/configmap-key")
    assert output.splitlines() == ["configmap content"] * 2
