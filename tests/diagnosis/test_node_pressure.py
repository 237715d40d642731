"""Nodes under pressure, and the thresholds of their kubelets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.diagnosis.node_pressure import pressure_conditions, read_pending_lines, read_pressure_lines


class _Reader:
    """A reader of a cluster with three nodes, of which the kubelet of one cannot be read."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self._nodes = nodes

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any] | None:
        if path == "/api/v1/nodes":
            return {"items": list(self._nodes)}
        if path == "/api/v1/nodes/full/proxy/configz":
            hard = {"memory.available": "100Mi", "nodefs.available": "200Mi", "imagefs.available": "200Mi"}
            return {"kubeletconfig": {"evictionHard": hard, "evictionSoft": {"nodefs.available": "1Gi"}}}
        return None

    async def lines(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]]:
        return []

    async def object_path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        return ""


def _node(name: str, **conditions: str) -> dict[str, Any]:
    entries = [{"type": type, "status": status} for type, status in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": entries}}


FULL = _node("full", Ready="True", DiskPressure="True", MemoryPressure="False")
UNREADABLE = _node("unreadable", MemoryPressure="True")
FULL_LINE = (
    "full has DiskPressure (thresholds: nodefs.available<200Mi, imagefs.available<200Mi, nodefs.available<1Gi): "
    "it evicts pods and accepts few new ones"
)
UNREADABLE_LINE = "unreadable has MemoryPressure: it evicts pods and accepts few new ones"


def test_pressure_conditions_are_those_that_are_true() -> None:
    assert pressure_conditions(FULL) == ["DiskPressure"]
    assert pressure_conditions({"metadata": {"name": "new"}}) == []


async def test_lines_name_the_thresholds_of_the_kubelet() -> None:
    reader = _Reader(FULL, UNREADABLE, _node("fine", Ready="True"))
    assert await read_pressure_lines(reader, FULL) == [FULL_LINE]
    assert await read_pressure_lines(reader, _node("fine")) == []
    assert await read_pending_lines(reader) == [FULL_LINE, UNREADABLE_LINE]
