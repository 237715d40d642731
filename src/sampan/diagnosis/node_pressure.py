"""Nodes that are short of memory, disk space or process IDs, and the thresholds below which their kubelets evict."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.diagnosis.cluster_reader import ClusterReader, Object, read_items

_SIGNALS = {
    "MemoryPressure": ("memory.",),
    "DiskPressure": ("nodefs.", "imagefs."),
    "PIDPressure": ("pid.",),
}
"""The prefixes of the eviction signals of each pressure condition."""
_MAX_NODES = 3


def pressure_conditions(node: Object) -> list[str]:
    """Return the pressure conditions that a node has."""
    conditions = node.get("status", {}).get("conditions") or ()
    return [entry["type"] for entry in conditions if entry["type"] in _SIGNALS and entry["status"] == "True"]


async def read_pressure_lines(reader: ClusterReader, node: Object) -> list[str]:
    """Return a line for each pressure condition of a node. The thresholds are those of its kubelet, if the reader may
    read them."""
    types, name = pressure_conditions(node), node["metadata"]["name"]
    if not types:
        return []
    config = (await reader.get(f"/api/v1/nodes/{name}/proxy/configz") or {}).get("kubeletconfig") or {}
    thresholds = [pair for key in ("evictionHard", "evictionSoft") for pair in (config.get(key) or {}).items()]
    return pressure_lines(name, types, thresholds)


async def read_pending_lines(reader: ClusterReader) -> list[str]:
    """Return the lines of the first nodes under pressure, for a pod that no node has."""
    nodes = [node for node in await read_items(reader, "/api/v1/nodes") if pressure_conditions(node)]
    return [line for node in nodes[:_MAX_NODES] for line in await read_pressure_lines(reader, node)]


def pressure_lines(name: str, types: Sequence[str], thresholds: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for condition in types:
        limits = [f"{signal}<{limit}" for signal, limit in thresholds if signal.startswith(_SIGNALS[condition])]
        cause = f" (thresholds: {', '.join(limits)})" if limits else ""
        lines.append(f"{name} has {condition}{cause}: it evicts pods and accepts few new ones")
    return lines
