"""Choose the cluster CIDR of a cluster with real nodes, unless it is set. It must not be in use by another cluster on
the machine, and must be the same after a restart, as nodes keep their pod CIDRs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

from sampan.cluster.machine.host_locks import HostLocks
from sampan.host.durable_files import write_durably

_FILE = "pod-range"
_NODES = 256
_NODE_FILE = "node-range"
_NODE_CIDRS = [f"172.30.{third}.0/22" for third in range(0, 256, 4)]
_CLUSTER_CIDRS = [f"10.{second}.0.0/16" for second in range(128, 256)]


def cluster_cidr(root: Path | None, locks: HostLocks) -> str:
    """Return the cluster CIDR. It is saved in `root`, the directory with the data of the nodes."""
    file = root / _FILE if root is not None else None
    if file is not None and file.exists():
        stored_cidr = file.read_text().strip()
        locks.acquire(stored_cidr)
        return stored_cidr
    from sampan.network.pods import free_cidr

    others = _cidrs_of_other_clusters(root) if root is not None else set()
    cidr = free_cidr([cidr for cidr in candidates(str(root)) if cidr not in others], "", locks.acquire)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, f"{cidr}\n".encode(), mode=0o644)
    return cidr


def _cidrs_of_other_clusters(root: Path) -> set[str]:
    """Return the CIDRs of the other clusters of the same user, which may be stopped at the moment."""
    return {file.read_text().strip() for file in root.parent.parent.glob(f"*/{root.name}/{_FILE}")}


def node_cidr(root: Path, locks: HostLocks) -> str:
    """Return the IPv4 node CIDR of a cluster whose nodes have their own network namespaces. It is saved in `root`, and
    replaced if the machine has since got another route to it."""
    from sampan.network.nodes import bridge_of_nodes
    from sampan.network.pods import free_cidr

    file, bridge = root / _NODE_FILE, bridge_of_nodes(root)
    stored_cidrs = [file.read_text().strip()] if file.exists() else []
    cidr = free_cidr([*stored_cidrs, *rotate_candidates(_NODE_CIDRS, str(root))], bridge, locks.acquire)
    if [cidr] != stored_cidrs:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, f"{cidr}\n".encode(), mode=0o644)
    return cidr


def candidates(identity: str) -> list[str]:
    """Return all candidates for the cluster CIDR, starting at a position that depends on the cluster."""
    return rotate_candidates(_CLUSTER_CIDRS, identity)


def rotate_candidates(cidrs: Sequence[str], identity: str) -> list[str]:
    begin = int(hashlib.sha256(identity.encode()).hexdigest(), 16) % len(cidrs)
    return [*cidrs[begin:], *cidrs[:begin]]


def choose_pod_cidr(identity: str) -> str:
    """Return a pod CIDR for a node that has to choose one itself. It conflicts with no route of the machine, and nodes
    with other names are unlikely to choose the same."""
    from sampan.network.pods import free_cidr

    number = int(hashlib.sha256(f"{identity}/node".encode()).hexdigest(), 16) % _NODES
    return free_cidr([pod_cidr_of(cidr, number) for cidr in candidates(identity)], bridge="")


def pod_cidr_of(cluster: str, number: int) -> str:
    """Return the pod CIDR of the node with that number, for a cluster without node IPAM."""
    return str(next(islice(IPv4Network(cluster).subnets(new_prefix=24), number, None)))
