"""Stop the containers that the nodes of a killed cluster have left running, as part of `sampan down`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.cli.cluster_dir import ClusterDir
from sampan.cli.failures import CliError

if TYPE_CHECKING:
    from sampan.cli.node_runtime import RuntimeNote


def end_left_nodes(where: ClusterDir) -> list[str]:
    """Return the names of the nodes of which something was stopped. Raise CliError if that fails."""
    from sampan.cli.node_runtime import RuntimeNote, left_runtime
    from sampan.runtimes.contract import RuntimeFailure
    from sampan.runtimes.names import OCI

    ended = []
    for directory in _nodes(where.path / "nodes"):
        note = left_runtime(directory) or (RuntimeNote(OCI) if _is_left(directory) else None)
        if note is None:
            continue
        try:
            asyncio.run(_end(directory, note, where.images))
        except (RuntimeFailure, OSError) as error:
            raise CliError(f"what {directory.name} has left running cannot be ended: {error}") from None
        ended.append(directory.name)
    return ended


def _nodes(root: Path) -> Iterator[Path]:
    if root.is_dir() and os.geteuid() == 0:
        yield from (Path(entry.path) for entry in os.scandir(root) if entry.is_dir())


def _is_left(folder: Path) -> bool:
    pods = folder / "oci" / "pods"
    has_monitor = (folder / "oci" / "monitor" / "monitor.sock").exists()
    return has_monitor or (pods.is_dir() and any(os.scandir(pods)))


async def _end(folder: Path, note: RuntimeNote, images: Path) -> None:
    """Take over the containers as the kubelet of the node would, and stop them."""
    from sampan.cli.node_runtime import RuntimePlaces, runtime_maker
    from sampan.cli.real_node_config import group_of
    from sampan.kubelet.agent.housekeeping import remove_directory
    from sampan.kubelet.cgroups.hierarchy import Hierarchy
    from sampan.machinery.clock import RealClock

    places = RuntimePlaces(node=folder.name, folder=folder, images=images, endpoint=note.endpoint, ends=True)
    async with runtime_maker(note.runtime, places, RealClock())(lambda uid: None):
        pass
    await asyncio.to_thread(remove_directory, folder / "kubelet" / "pods")
    await asyncio.to_thread(Hierarchy().remove, group_of(folder.parent, folder.name))
