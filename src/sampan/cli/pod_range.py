"""Which range a cluster with real nodes takes its pods' addresses from, unless told: one that no other cluster on the
machine uses, and the same again at the next start, as the nodes keep what they were given."""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

from sampan.cli.claims import Claims

_FILE = "pod-range"
_NODES = 256
_RANGES = [f"10.{second}.0.0/16" for second in range(200, 256)]


def pod_range(root: Path | None, claims: Claims) -> str:
    """`root` is where the nodes keep their data, the range among it."""
    file = root / _FILE if root is not None else None
    if file is not None and file.exists():
        kept = file.read_text().strip()
        claims.take(kept)
        return kept
    from sampan.network.pods import free_range

    found = free_range(candidates(str(root)), "", claims.take)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{found}\n")
    return found


def candidates(identity: str) -> list[str]:
    """All, but different clusters begin at different ones."""
    begin = int(hashlib.sha256(identity.encode()).hexdigest(), 16) % len(_RANGES)
    return _RANGES[begin:] + _RANGES[:begin]


def own_range(identity: str) -> str:
    """Of a node that is to take one itself: of those that no route of its machine leads to one that others, with other
    names, are not likely to take."""
    from sampan.network.pods import free_range

    number = int(hashlib.sha256(f"{identity}/node".encode()).hexdigest(), 16) % _NODES
    return free_range([node_range(each, number) for each in candidates(identity)], bridge="")


def node_range(cluster: str, number: int) -> str:
    """Of a node that nobody gives one: the range of its number."""
    return str(next(islice(IPv4Network(cluster).subnets(new_prefix=24), number, None)))


__all__ = ["candidates", "node_range", "own_range", "pod_range"]
