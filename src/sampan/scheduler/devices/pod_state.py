"""What is known of one pod's claims during one attempt to find it a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.resource_v1 import AllocationResult, ResourceClaim
from sampan.scheduler.devices.answers import Answers
from sampan.scheduler.devices.extended import Special


class Part(NamedTuple):
    """What some of the nodes have to give."""

    claims: Sequence[ResourceClaim]
    """Those without devices; the one for extended resources comes last."""
    special: Special | None
    answers: Answers


@dataclass(slots=True)
class PodState:
    claims: list[ResourceClaim]
    """Those that the pod names, as they were last written."""
    extended: tuple[str, ...] = ()
    """Resources that the pod asks for and device classes serve."""
    stale: ResourceClaim | None = None
    """One for extended resources, of an attempt that failed."""
    parts: dict[tuple[str, ...], Part | None] = field(default_factory=dict)
    """By the extended resources that a node must give as devices; None if it need give nothing."""
    unavailable: set[str] = field(default_factory=set)
    """Uids of claims whose devices some node cannot use."""
    promised: dict[str, AllocationResult] = field(default_factory=dict)
    """By uid of the claim, since `reserve`."""
    special: Special | None = None
    """On the node that was chosen."""
    made: ResourceClaim | None = None
    """What became of it on the server."""

    @property
    def open(self) -> list[ResourceClaim]:
        return [claim for claim in self.claims if claim.status.allocation is None]

    @property
    def written(self) -> list[ResourceClaim]:
        return [*self.claims, *([self.made] if self.made is not None else [])]


__all__ = ["Part", "PodState"]
