"""Conformance tests of sig-storage for Secret volumes and projected secrets. The first paragraph of a docstring is the
official test name."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Namespace, Secret
from sampan.machinery import errors
from tests.e2e.conformance.storage.real_node import RealNode, concurrent_scenario

Make = Callable[..., dict[str, Any]]
DATA = {"data-1": "value-1", "data-2": "value-2", "data-3": "value-3"}
MAPPING = [{"key": "data-1", "path": "new-path-data-1"}]
LOOK = "cat /v/data-1; echo; stat -L -c %A /v/data-1"


def secret_volume(
    secret: str, items: Sequence[Any] = (), mode: int | None = None, optional: bool | None = None, name: str = "v"
) -> dict[str, Any]:
    source: dict[str, Any] = {"secretName": secret, "items": list(items), "optional": optional}
    return {"name": name, "secret": source | ({"defaultMode": mode} if mode is not None else {})}


def projected_volume(
    secret: str, items: Sequence[Any] = (), mode: int | None = None, optional: bool | None = None, name: str = "v"
) -> dict[str, Any]:
    part = {"secret": {"name": secret, "items": list(items), "optional": optional}}
    source: dict[str, Any] = {"sources": [part]}
    return {"name": name, "projected": source | ({"defaultMode": mode} if mode is not None else {})}


async def check_consumable(node: RealNode, make: Make) -> None:
    await node.secret("s", stringData=DATA)
    assert (await node.output(LOOK, make("s"))).splitlines() == ["value-1", "-rw-r--r--"]


async def check_default_mode(node: RealNode, make: Make) -> None:
    await node.secret("s", stringData=DATA)
    assert (await node.output(LOOK, make("s", mode=0o400))).splitlines() == ["value-1", "-r--------"]


async def check_fs_group(node: RealNode, make: Make) -> None:
    """Check that a user who is neither root nor the owner reads the file through the fsGroup of the pod."""
    await node.secret("s", stringData=DATA)
    security = {"runAsUser": 1000, "fsGroup": 1001}
    output = await node.output(f"{LOOK}; stat -L -c %g /v/data-1", make("s", mode=0o440), securityContext=security)
    assert output.splitlines() == ["value-1", "-r--r-----", "1001"]


async def check_mappings(node: RealNode, make: Make, mode: int | None, shown: str) -> None:
    await node.secret("s", stringData=DATA)
    item = {**MAPPING[0], **({"mode": mode} if mode is not None else {})}
    output = await node.output("cat /v/new-path-data-1; echo; stat -L -c %A /v/new-path-data-1", make("s", [item]))
    assert output.splitlines() == ["value-1", shown]


async def check_two_volumes(node: RealNode, make: Make) -> None:
    await node.secret("s", stringData=DATA)
    output = await node.output("cat /a/data-1 /b/data-1", make("s", name="a"), make("s", name="b"))
    assert output == "value-1value-1"


async def check_optional_updates(node: RealNode, make: Make) -> None:
    await node.secret("del", stringData={"data-1": "value-1"})
    await node.secret("upd", stringData={"data-1": "value-1"})
    volumes = [make(name, optional=True, name=name) for name in ("del", "upd", "create")]
    script = (
        "[ -e /del/data-1 ] && [ ! -e /create/data-1 ] || exit 1; "
        "until [ ! -e /del/data-1 ] && [ -e /upd/data-3 ] && [ -e /create/data-1 ]; do sleep 0.1; done; "
        "cat /upd/data-3 /create/data-1"
    )
    await node.wait_until_running(await node.start(script, *volumes))
    await node.remove(Secret, "del")
    await node.change(Secret, "upd", data={"data-1": None}, stringData={"data-3": "value-3"})
    await node.secret("create", stringData={"data-1": "value-1"})
    assert node.output_of(await node.wait_until_succeeded("p")) == "value-3value-1"


@concurrent_scenario
async def test_consumable(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable from pods in volume [NodeConformance] [Conformance]"""
    await check_consumable(node, secret_volume)


@concurrent_scenario
async def test_default_mode(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable from pods in volume with defaultMode set [LinuxOnly]
    [NodeConformance]"""
    await check_default_mode(node, secret_volume)


@concurrent_scenario
async def test_non_root_with_fs_group(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable from pods in volume as non-root with defaultMode and fsGroup set
    [LinuxOnly] [NodeConformance]"""
    await check_fs_group(node, secret_volume)


@concurrent_scenario
async def test_mappings(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable from pods in volume with mappings [NodeConformance] [Conformance]"""
    await check_mappings(node, secret_volume, None, "-rw-r--r--")


@concurrent_scenario
async def test_item_mode(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable from pods in volume with mappings and Item Mode set [LinuxOnly]
    [NodeConformance]"""
    await check_mappings(node, secret_volume, 0o400, "-r--------")


@concurrent_scenario
async def test_several_volumes(node: RealNode) -> None:
    """[sig-storage] Secrets should be consumable in multiple volumes in a pod [NodeConformance] [Conformance]"""
    await check_two_volumes(node, secret_volume)


@concurrent_scenario
async def test_optional_updates(node: RealNode) -> None:
    """[sig-storage] Secrets optional updates should be reflected in volume [NodeConformance] [Conformance]"""
    await check_optional_updates(node, secret_volume)


@concurrent_scenario
async def test_same_name_in_another_namespace(node: RealNode) -> None:
    """[sig-storage] Secrets should be able to mount in a volume regardless of a different secret existing with same
    name in different namespace [NodeConformance]"""
    other = f"{node.namespace}-other"
    await node.client.for_kind(Namespace).create(json.from_value({"metadata": {"name": other}}, Namespace))
    await node.secret("s", other, stringData={"this_should_not_match_content_of_other_secret": "similarly"})
    await check_consumable(node, secret_volume)


@concurrent_scenario
async def test_immutable(node: RealNode) -> None:
    """[sig-storage] Secrets should be immutable if `immutable` field is set [Conformance]"""
    await node.secret("s", stringData=DATA)
    await node.change(Secret, "s", stringData={"data-1": "other"})
    await node.change(Secret, "s", immutable=True)
    for change in ({"stringData": {"data-1": "more"}}, {"immutable": False}, {"data": {"data-1": None}}):
        with pytest.raises(errors.Invalid):
            await node.change(Secret, "s", **change)
    await node.change(Secret, "s", metadata={"labels": {"a": "b"}})
    await node.remove(Secret, "s")


@concurrent_scenario
async def test_projected_consumable(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable from pods in volume [NodeConformance] [Conformance]"""
    await check_consumable(node, projected_volume)


@concurrent_scenario
async def test_projected_default_mode(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable from pods in volume with defaultMode set [LinuxOnly]
    [NodeConformance]"""
    await check_default_mode(node, projected_volume)


@concurrent_scenario
async def test_projected_non_root_with_fs_group(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable from pods in volume as non-root with defaultMode and fsGroup
    set [LinuxOnly] [NodeConformance]"""
    await check_fs_group(node, projected_volume)


@concurrent_scenario
async def test_projected_mappings(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable from pods in volume with mappings [NodeConformance]"""
    await check_mappings(node, projected_volume, None, "-rw-r--r--")


@concurrent_scenario
async def test_projected_item_mode(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable from pods in volume with mappings and Item Mode set
    [LinuxOnly] [NodeConformance]"""
    await check_mappings(node, projected_volume, 0o400, "-r--------")


@concurrent_scenario
async def test_projected_several_volumes(node: RealNode) -> None:
    """[sig-storage] Projected secret should be consumable in multiple volumes in a pod [NodeConformance]"""
    await check_two_volumes(node, projected_volume)


@concurrent_scenario
async def test_projected_optional_updates(node: RealNode) -> None:
    """[sig-storage] Projected secret optional updates should be reflected in volume [NodeConformance] [Conformance]"""
    await check_optional_updates(node, projected_volume)
