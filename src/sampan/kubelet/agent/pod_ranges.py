"""Saves the node's pod CIDRs, for a kubelet that starts while the API server is unreachable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_FILE = "pod-ranges"


def kept(root: Path) -> list[str]:
    try:
        return (root / _FILE).read_text().split()
    except OSError:
        return []


def keep(root: Path, ranges: Sequence[str]) -> None:
    """Store the pod CIDRs atomically. Raise OSError if that fails."""
    fresh = root / f".{_FILE}"
    fresh.write_text("".join(f"{cidr}\n" for cidr in ranges))
    fresh.replace(root / _FILE)
