"""The state of one pod's claims during one scheduling attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sampan.api.types.resource_v1 import AllocationResult, ResourceClaim
from sampan.scheduler.devices.answers import Answers
from sampan.scheduler.devices.extended import Special


class Part(NamedTuple):
    """The claims that have to be allocated on some of the nodes."""

    claims: Sequence[ResourceClaim]
    """Unallocated claims; the claim for extended resources comes last."""
    special: Special | None
    answers: Answers


@dataclass(slots=True)
class PodState:
    claims: list[ResourceClaim]
    """The claims that the pod refers to, as last written."""
    extended: tuple[str, ...] = ()
    """Extended resources that the pod requests and that device classes provide."""
    stale: ResourceClaim | None = None
    """A claim for extended resources that was left behind by a failed attempt."""
    parts: dict[tuple[str, ...], Part | None] = field(default_factory=dict)
    """Claims to allocate, by the extended resources that a node must provide as devices; None if there are none."""
    unavailable: set[str] = field(default_factory=set)
    """UIDs of allocated claims whose devices some node cannot use."""
    promised: dict[str, AllocationResult] = field(default_factory=dict)
    """Allocations promised by `reserve`, by claim UID."""
    special: Special | None = None
    """The claim for extended resources on the selected node."""
    made: ResourceClaim | None = None
    """The claim for extended resources as created on the server."""

    @property
    def open(self) -> list[ResourceClaim]:
        return [claim for claim in self.claims if claim.status.allocation is None]

    @property
    def written(self) -> list[ResourceClaim]:
        return [*self.claims, *([self.made] if self.made is not None else [])]
