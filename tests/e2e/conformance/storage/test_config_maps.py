"""Conformance tests of sig-storage for ConfigMap volumes and projected config maps. The first paragraph of a docstring
is the official test name."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sampan.api.types.core_v1 import ConfigMap
from sampan.machinery import errors
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

Make = Callable[..., dict[str, Any]]
DATA = {"data-1": "value-1", "data-2": "value-2", "data-3": "value-3"}
MAPPING = [{"key": "data-2", "path": "path/to/data-2"}]
LOOK = "cat /v/data-1; echo; stat -L -c %A /v/data-1"


def config_map_volume(
    config_map: str, items: Sequence[Any] = (), mode: int | None = None, optional: bool | None = None, name: str = "v"
) -> dict[str, Any]:
    source: dict[str, Any] = {"name": config_map, "items": list(items), "optional": optional}
    return {"name": name, "configMap": source | ({"defaultMode": mode} if mode is not None else {})}


def projected_volume(
    config_map: str, items: Sequence[Any] = (), mode: int | None = None, optional: bool | None = None, name: str = "v"
) -> dict[str, Any]:
    part = {"configMap": {"name": config_map, "items": list(items), "optional": optional}}
    source: dict[str, Any] = {"sources": [part]}
    return {"name": name, "projected": source | ({"defaultMode": mode} if mode is not None else {})}


async def check_consumable(node: RealNode, make: Make, *, user: int = 0) -> None:
    await node.config_map("m", data=DATA)
    output = await node.output(f"{LOOK}; id -u", make("m"), securityContext={"runAsUser": user})
    assert output.splitlines() == ["value-1", "-rw-r--r--", str(user)]


async def check_default_mode(node: RealNode, make: Make) -> None:
    await node.config_map("m", data=DATA)
    assert (await node.output(LOOK, make("m", mode=0o400))).splitlines() == ["value-1", "-r--------"]


async def check_mappings(node: RealNode, make: Make, *, user: int = 0) -> None:
    await node.config_map("m", data=DATA)
    script = "cat /v/path/to/data-2; echo; ls /v"
    output = await node.output(script, make("m", MAPPING), securityContext={"runAsUser": user})
    assert output.splitlines() == ["value-2", "path"]


async def check_item_mode(node: RealNode, make: Make) -> None:
    await node.config_map("m", data=DATA)
    script = "cat /v/path/to/data-2; echo; stat -L -c %A /v/path/to/data-2"
    output = await node.output(script, make("m", [{**MAPPING[0], "mode": 0o400}]))
    assert output.splitlines() == ["value-2", "-r--------"]


async def check_two_volumes(node: RealNode, make: Make) -> None:
    await node.config_map("m", data=DATA)
    output = await node.output("cat /a/data-1 /b/data-1", make("m", name="a"), make("m", name="b"))
    assert output == "value-1value-1"


async def check_updates(node: RealNode, make: Make) -> None:
    await node.config_map("m", data=DATA)
    script = 'until [ "$(cat /v/data-1)" = value-9 ] && [ ! -e /v/data-3 ]; do sleep 0.1; done; cat /v/data-1'
    await node.wait_until_running(await node.start(script, make("m")))
    await node.change(ConfigMap, "m", data={"data-1": "value-9", "data-3": None})
    assert node.output_of(await node.wait_until_succeeded("p")) == "value-9"


async def check_optional_updates(node: RealNode, make: Make) -> None:
    await node.config_map("del", data={"data-1": "value-1"})
    await node.config_map("upd", data={"data-1": "value-1"})
    volumes = [make(name, optional=True, name=name) for name in ("del", "upd", "create")]
    script = (
        "[ -e /del/data-1 ] && [ ! -e /create/data-1 ] || exit 1; "
        "until [ ! -e /del/data-1 ] && [ -e /upd/data-3 ] && [ -e /create/data-1 ]; do sleep 0.1; done; "
        "cat /upd/data-3 /create/data-1"
    )
    await node.wait_until_running(await node.start(script, *volumes))
    await node.remove(ConfigMap, "del")
    await node.change(ConfigMap, "upd", data={"data-1": None, "data-3": "value-3"})
    await node.config_map("create", data={"data-1": "value-1"})
    assert node.output_of(await node.wait_until_succeeded("p")) == "value-3value-1"


@concurrent_scenario
async def test_consumable(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume [NodeConformance] [Conformance]"""
    await check_consumable(node, config_map_volume)


@concurrent_scenario
async def test_consumable_as_non_root(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume as non-root [NodeConformance] [Conformance]"""
    await check_consumable(node, config_map_volume, user=1000)


@concurrent_scenario
async def test_default_mode(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume with defaultMode set [LinuxOnly]
    [NodeConformance]"""
    await check_default_mode(node, config_map_volume)


@concurrent_scenario
async def test_mappings(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume with mappings [NodeConformance] [Conformance]"""
    await check_mappings(node, config_map_volume)


@concurrent_scenario
async def test_mappings_as_non_root(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume with mappings as non-root [NodeConformance]"""
    await check_mappings(node, config_map_volume, user=1000)


@concurrent_scenario
async def test_item_mode(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable from pods in volume with mappings and Item mode set [LinuxOnly]
    [NodeConformance]"""
    await check_item_mode(node, config_map_volume)


@concurrent_scenario
async def test_several_volumes(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be consumable in multiple volumes in the same pod [NodeConformance]"""
    await check_two_volumes(node, config_map_volume)


@concurrent_scenario
async def test_updates(node: RealNode) -> None:
    """[sig-storage] ConfigMap updates should be reflected in volume [NodeConformance] [Conformance]"""
    await check_updates(node, config_map_volume)


@concurrent_scenario
async def test_optional_updates(node: RealNode) -> None:
    """[sig-storage] ConfigMap optional updates should be reflected in volume [NodeConformance] [Conformance]"""
    await check_optional_updates(node, config_map_volume)


@concurrent_scenario
async def test_binary_data(node: RealNode) -> None:
    """[sig-storage] ConfigMap binary data should be reflected in volume [NodeConformance] [Conformance]"""
    raw = bytes([0xDE, 0xCA, 0xFE, 0xBA, 0xD0, 0xFE, 0xFF])
    await node.config_map("m", data=DATA, binaryData={"dump.bin": base64.b64encode(raw).decode()})
    output = await node.output("cat /v/data-1; echo; od -An -tx1 /v/dump.bin", config_map_volume("m"))
    assert output.splitlines() == ["value-1", " de ca fe ba d0 fe ff"]


@concurrent_scenario
async def test_immutable(node: RealNode) -> None:
    """[sig-storage] ConfigMap should be immutable if `immutable` field is set [Conformance]"""
    await node.config_map("m", data=DATA)
    await node.change(ConfigMap, "m", data={"data-1": "other"})
    await node.change(ConfigMap, "m", immutable=True)
    for change in ({"data": {"data-1": "more"}}, {"immutable": False}, {"binaryData": {"x": "eA=="}}):
        with pytest.raises(errors.Invalid):
            await node.change(ConfigMap, "m", **change)
    await node.change(ConfigMap, "m", metadata={"labels": {"a": "b"}})
    await node.remove(ConfigMap, "m")


@concurrent_scenario
async def test_projected_consumable(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume [NodeConformance] [Conformance]"""
    await check_consumable(node, projected_volume)


@concurrent_scenario
async def test_projected_consumable_as_non_root(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume as non-root [NodeConformance]"""
    await check_consumable(node, projected_volume, user=1000)


@concurrent_scenario
async def test_projected_default_mode(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume with defaultMode set [LinuxOnly]
    [NodeConformance]"""
    await check_default_mode(node, projected_volume)


@concurrent_scenario
async def test_projected_mappings(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume with mappings [NodeConformance]"""
    await check_mappings(node, projected_volume)


@concurrent_scenario
async def test_projected_mappings_as_non_root(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume with mappings as non-root
    [NodeConformance]"""
    await check_mappings(node, projected_volume, user=1000)


@concurrent_scenario
async def test_projected_item_mode(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable from pods in volume with mappings and Item mode set
    [LinuxOnly] [NodeConformance]"""
    await check_item_mode(node, projected_volume)


@concurrent_scenario
async def test_projected_several_volumes(node: RealNode) -> None:
    """[sig-storage] Projected configMap should be consumable in multiple volumes in the same pod [NodeConformance]"""
    await check_two_volumes(node, projected_volume)


@concurrent_scenario
async def test_projected_updates(node: RealNode) -> None:
    """[sig-storage] Projected configMap updates should be reflected in volume [NodeConformance] [Conformance]"""
    await check_updates(node, projected_volume)


@concurrent_scenario
async def test_projected_optional_updates(node: RealNode) -> None:
    """[sig-storage] Projected configMap optional updates should be reflected in volume [NodeConformance]"""
    await check_optional_updates(node, projected_volume)
