"""What the nodes of a killed cluster have left running: it is ended when the cluster is told to be down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from sampan.cli.cluster_dir import ClusterDir


def end_left_nodes(where: ClusterDir) -> list[str]:
    """The names of the nodes of which something was left."""
    folders = [folder for folder in _nodes(where.path / "nodes") if _is_left(folder)]
    for folder in folders:
        asyncio.run(_end(folder, where.images))
    return [folder.name for folder in folders]


def _nodes(root: Path) -> Iterator[Path]:
    if root.is_dir() and os.geteuid() == 0:
        yield from (Path(each.path) for each in os.scandir(root) if each.is_dir())


def _is_left(folder: Path) -> bool:
    pods = folder / "oci" / "pods"
    has_monitor = (folder / "oci" / "monitor" / "monitor.sock").exists()
    return has_monitor or (pods.is_dir() and any(os.scandir(pods)))


async def _end(folder: Path, images: Path) -> None:
    """Take it over as its kubelet would, and end it all."""
    from sampan.cli.node_runtime import RuntimePlaces, runtime_maker
    from sampan.cli.nodes_config import OCI
    from sampan.cli.real_nodes import group_of
    from sampan.kubelet.agent.orphans import remove_folder
    from sampan.kubelet.cgroups.hierarchy import Hierarchy
    from sampan.machinery.clock import RealClock

    places = RuntimePlaces(node=folder.name, folder=folder, images=images, ends=True)
    async with runtime_maker(OCI, places, RealClock())(lambda uid: None):
        pass
    await asyncio.to_thread(remove_folder, folder / "kubelet" / "pods")
    await asyncio.to_thread(Hierarchy().remove, group_of(folder.parent, folder.name))


__all__ = ["end_left_nodes"]
