"""Volumes for claims with delayed binding: on each node the smallest matching volume, or a new one to provision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sampan.api import label_selector
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.classes import class_of_claim, class_of_volume
from sampan.machinery.volumes.matching import (
    allows_access,
    attributes_differ,
    capacity,
    is_bound_to,
    modes_differ,
    requested,
)
from sampan.machinery.volumes.words import AVAILABLE, SELECTED_NODE, STORAGE
from sampan.scheduler.arrays import Flags, Rows, count_of, numbers_of
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.volumes.reach import allowed, everywhere, nowhere, reached

NO_PROVISIONER = "kubernetes.io/no-provisioner"

Room = Callable[[StorageClass, int, Rows], Flags]
"""Returns the rows with enough capacity to provision a volume of this class and size."""


@dataclass(slots=True)
class Choice:
    """The volumes chosen for each of the rows."""

    has_volumes: Flags
    """Whether every claim has a matching volume or can have one provisioned."""
    has_room: Flags
    static: list[tuple[PersistentVolumeClaim, list[tuple[PersistentVolume, Flags]]]]
    """For each claim, the volumes chosen for it and the rows that they are chosen on."""
    made: list[tuple[PersistentVolumeClaim, Flags]]
    """Claims for which a volume has to be provisioned, and the rows on which it has to be."""


def choose(
    table: NodeTable,
    claims: Sequence[PersistentVolumeClaim],
    volumes_of: Callable[[str], Sequence[PersistentVolume]],
    class_of: Callable[[str], StorageClass | None],
    room: Room,
    rows: Rows,
) -> Choice:
    """Choose volumes for the claims on all rows; `volumes_of` returns the volumes of a storage class."""
    choice = Choice(everywhere(rows), everywhere(rows), [], [])
    decided = [claim for claim in claims if SELECTED_NODE in claim.metadata.annotations]
    for claim in decided:
        row = table.rows.get(claim.metadata.annotations[SELECTED_NODE], -1)
        selected = numbers_of(rows) == row
        choice.has_volumes &= selected
        choice.made.append((claim, selected))
    used: dict[str, Flags] = {}
    free = [claim for claim in claims if SELECTED_NODE not in claim.metadata.annotations]
    for claim in sorted(free, key=requested):
        chosen = _static(table, claim, volumes_of(class_of_claim(claim)), used, rows)
        choice.static.append((claim, chosen))
        choice.made.append((claim, ~_any([flags for _, flags in chosen], rows)))
    _provide(table, choice, class_of, room, rows)
    return choice


def _static(
    table: NodeTable,
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    taken: dict[str, Flags],
    rows: Rows,
) -> list[tuple[PersistentVolume, Flags]]:
    """Choose, on each row, the smallest accessible volume; a volume pre-bound to the claim is the only choice."""
    chosen: list[tuple[PersistentVolume, Flags]] = []
    looking = everywhere(rows)
    for volume in _suiting(claim, volumes):
        name = volume.metadata.name
        usable = reached(table, volume, rows) & looking
        if name in taken:
            usable &= ~taken[name]
        if usable.any():
            chosen.append((volume, usable))
            taken[name] = usable | taken.get(name, usable)
            looking &= ~usable
        if is_bound_to(volume, claim) or not looking.any():
            break
    return chosen


def _suiting(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> list[PersistentVolume]:
    candidates = [volume for volume in volumes if _suits(volume, claim)]
    return sorted(
        candidates, key=lambda volume: (not is_bound_to(volume, claim), capacity(volume), volume.metadata.name)
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.spec.claimRef is not None and not is_bound_to(volume, claim):
        return False
    if volume.metadata.deletionTimestamp is not None or capacity(volume) < requested(claim):
        return False
    if modes_differ(claim, volume) or attributes_differ(claim, volume):
        return False
    if is_bound_to(volume, claim):
        return True
    if volume.status.phase != AVAILABLE or class_of_volume(volume) != class_of_claim(claim):
        return False
    selector = claim.spec.selector
    if selector is not None and not label_selector.selector_of(selector).matches(volume.metadata.labels):
        return False
    return allows_access(volume, claim)


def _provide(
    table: NodeTable, found: Choice, class_of: Callable[[str], StorageClass | None], room: Room, rows: Rows
) -> None:
    """Check whether the volumes can be provisioned; a row that fails for one claim is not checked for the next."""
    going_on = found.has_volumes.copy()
    for claim, flags in found.made:
        pending = flags & going_on
        if not pending.any():
            continue
        able = _is_made(table, class_of(class_of_claim(claim)), rows)
        found.has_volumes &= ~pending | able
        has_room = room_for(claim, class_of(class_of_claim(claim)), room, rows)
        found.has_room &= ~(pending & able) | has_room
        going_on &= ~pending | (able & has_room)


def _is_made(table: NodeTable, storage_class: StorageClass | None, rows: Rows) -> Flags:
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return nowhere(rows)
    return allowed(table, storage_class.allowedTopologies, rows)


def room_for(claim: PersistentVolumeClaim, storage_class: StorageClass | None, room: Room, rows: Rows) -> Flags:
    asks = claim.spec.resources is not None and STORAGE in claim.spec.resources.requests
    if storage_class is None or not asks:
        return everywhere(rows)
    return room(storage_class, requested(claim).value(), rows)


def _any(flags: Sequence[Flags], rows: Rows) -> Flags:
    combined = np.zeros(count_of(rows), dtype=np.bool_)
    for part in flags:
        combined |= part
    return combined
