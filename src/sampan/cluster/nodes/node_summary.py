"""Taint hollow nodes of earlier runs beside real nodes, and summarize the nodes for `sampan up`.

A hollow node is kept when the cluster is started with a real runtime. Pods bound to it would only seem to run, so it
has a taint as long as the cluster has real nodes. The taint is added before the scheduler starts.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from sampan.api.types.core_v1 import Node
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType
from sampan.runtimes.names import HOLLOW

log = logging.getLogger(__name__)

_NAMES_SHOWN = 3
_MAX_NOT_READY_SHOWN = 5
_READY_TIMEOUT_S = 60.0
_NODES_PER_TIMEOUT = 1000


async def settle_hollow_taints(client: Client, config: NodesConfig) -> None:
    """Add the taint to hollow nodes if the cluster has real nodes, and remove it otherwise."""
    nodes = (await client.for_kind(Node).list()).items
    if not nodes:
        return
    from sampan.kubelet.hollow_nodes import has_hollow_taint, hollow_taint_patch, is_hollow

    about_to_be_real = {f"node-{number}" for number in range(config.real_count)}
    for node in nodes:
        is_wanted = is_hollow(node) and config.real_count > 0 and node.metadata.name not in about_to_be_real
        if has_hollow_taint(node) == is_wanted:
            continue
        patch = hollow_taint_patch(node, add=is_wanted)
        try:
            await client.for_kind(Node).patch(node.metadata.name, patch, type=PatchType.MERGE)
        except (errors.NotFound, errors.Conflict) as error:
            log.warning("node %s: cannot remove its hollow taint: %s", node.metadata.name, error)


async def node_summary(client: Client, config: NodesConfig) -> str:
    """Return one line for the user who starts the cluster: the number of nodes of each runtime."""
    return summary((await client.for_kind(Node).list()).items, config)


def summary(nodes: Sequence[Node], config: NodesConfig) -> str:
    from sampan.kubelet.hollow_nodes import HOLLOW_TAINT, RUNTIME

    runtimes = {node.metadata.name: node.metadata.annotations.get(RUNTIME, "kubelet") for node in nodes}
    counts = Counter(runtimes.values())
    counts[HOLLOW] = max(counts[HOLLOW], config.hollow_count)
    parts = [config.about or (config.note if not counts.total() else "")]
    if counts.total():
        parts.append(", ".join(f"{count} {runtime}" for runtime, count in sorted(counts.items()) if count))
    hollow = sorted(name for name, runtime in runtimes.items() if runtime == HOLLOW)
    if counts.total() and not config.about and config.note:
        parts.append(config.note.replace("there is no node:", "no real node:"))
    if config.real_count and hollow:
        parts.append(
            f"hollow nodes are tainted {HOLLOW_TAINT}:NoSchedule; `{_removal(hollow)}` removes "
            f"{'it' if len(hollow) == 1 else 'them'}"
        )
    return "; ".join(part for part in parts if part)


def ready_timeout_s(count: int) -> float:
    """Return how long the start of a cluster waits for so many nodes: a minute, or a minute for each 1,000 nodes."""
    return _READY_TIMEOUT_S * max(1.0, count / _NODES_PER_TIMEOUT)


def not_ready_text(names: Sequence[str], timeout_s: float, reason: str = "") -> str:
    """Return the error of a start whose nodes are not ready in time. `reason` is that of the first node."""
    others = len(names) - _MAX_NOT_READY_SHOWN
    shown = ", ".join(names[:_MAX_NOT_READY_SHOWN]) + (f" and {others} more" if others > 0 else "")
    cause = f"; {names[0]}: {reason}" if reason else ""
    return f"not ready after {timeout_s:.0f} s: {'node' if len(names) == 1 else 'nodes'} {shown}{cause}"


def _removal(names: Sequence[str]) -> str:
    shown = " ".join(names[:_NAMES_SHOWN])
    return f"sampan node remove {shown}{' ...' if len(names) > _NAMES_SHOWN else ''}"
