"""What a cluster is told about its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO, HOLLOW = "auto", "hollow"
RUNTIMES = (AUTO, "cri", "docker", "oci", "process", HOLLOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConfig:
    count: int = 0
    """How many nodes there are at least: node-0, node-1 and so on."""
    stages: Path | None = None
    """What hollow pods do."""
    has_events: bool = True
    """Whether nodes tell events."""


__all__ = ["AUTO", "HOLLOW", "RUNTIMES", "NodesConfig"]
