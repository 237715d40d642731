"""What a cluster is told about its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AUTO, HOLLOW, OCI, PROCESS = "auto", "hollow", "oci", "process"
RUNTIMES = (AUTO, "cri", "docker", OCI, PROCESS, HOLLOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConfig:
    count: int = 0
    """How many nodes there are at least: node-0, node-1 and so on."""
    runtime: str = HOLLOW
    """What runs their pods."""
    stages: Path | None = None
    """What hollow pods do."""
    has_events: bool = True
    """Whether hollow nodes tell events."""
    root: Path | None = None
    """Where real nodes keep their data."""
    images: Path | None = None
    """Where the images of real nodes are, which they share."""
    has_pod_ranges: bool = False
    """Each node is given a range of addresses for its pods."""
    note: str = ""
    """Why there is no real node although nobody said that there should be none."""

    @property
    def hollow_count(self) -> int:
        return self.count if self.runtime == HOLLOW else 0

    @property
    def real_count(self) -> int:
        return self.count if self.runtime != HOLLOW else 0


__all__ = ["AUTO", "HOLLOW", "OCI", "PROCESS", "RUNTIMES", "NodesConfig"]
