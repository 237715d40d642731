"""Device allocation for a pod's claims across nodes; outcomes are cached for pods with equal requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.scheduler.arrays import Flags
from sampan.scheduler.devices.answers import Answers
from sampan.scheduler.devices.extended import special_claim
from sampan.scheduler.devices.inventory import Inventory
from sampan.scheduler.devices.pod_state import Part, PodState
from sampan.scheduler.devices.selectors import Pause, Selectors
from sampan.scheduler.devices.wants import wants_key, wants_of
from sampan.scheduler.node_table import NodeTable

_ANSWERS_KEPT = 128


class Finder:
    def __init__(
        self,
        *,
        table: NodeTable,
        inventory: Inventory,
        most_steps: int,
    ) -> None:
        self._table, self._views, self._ledger = table, inventory.views, inventory.ledger
        self._classes, self._serving, self._most_steps = inventory.classes, inventory.serving, most_steps
        self._selectors = Selectors()
        self._kept: OrderedDict[bytes, Answers] = OrderedDict()

    def parts(self, state: PodState, pod: Pod, rows: NDArray[np.intp]) -> Iterator[tuple[Flags | slice, Part]]:
        """Yield groups of rows with the claims to allocate there; rows without anything to allocate are omitted."""
        if not state.extended:
            part = self.part(state, pod, ())
            if part is not None:
                yield slice(None), part
            return
        bits = np.zeros(len(rows), dtype=np.int64)
        for bit, name in enumerate(state.extended):
            at = self._table.resource(name)
            lacking = self._table.allocatable[at, rows] == 0
            bits |= lacking.astype(np.int64) << bit
        for pattern in np.unique(bits).tolist():
            names = tuple(name for bit, name in enumerate(state.extended) if pattern >> bit & 1)
            part = self.part(state, pod, names)
            if part is not None:
                yield bits == pattern, part

    def part(self, state: PodState, pod: Pod, names: tuple[str, ...]) -> Part | None:
        if names not in state.parts:
            special = special_claim(pod, names, self._serving.of) if names else None
            claims = [*state.open, *([special.claim] if special is not None else [])]
            state.parts[names] = Part(claims, special, self._answers(claims)) if claims else None
        return state.parts[names]

    def catch_up(self, state: PodState, pod: Pod, rows: NDArray[np.intp]) -> Generator[Pause, None, None]:
        """Compute the missing outcomes of these rows, yielding now and then so that other tasks can run."""
        for among, part in list(self.parts(state, pod, rows)):
            yield from part.answers.catch_up(rows[among])

    def is_known(self, state: PodState, pod: Pod, rows: NDArray[np.intp]) -> bool:
        return all(part.answers.is_known(rows[among]) for among, part in self.parts(state, pod, rows))

    def _answers(self, claims: list[ResourceClaim]) -> Answers:
        key = wants_key(claims, self._classes.get)
        answers = self._kept.get(key)
        if answers is None:
            self._views.refresh()
            answers = self._kept[key] = Answers(
                wants=wants_of(claims, self._classes.get),
                views=self._views,
                ledger=self._ledger,
                selectors=self._selectors,
                most_steps=self._most_steps,
            )
            if len(self._kept) > _ANSWERS_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return answers
