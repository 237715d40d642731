"""The most recent scheduling decisions, for `sampan why`."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sampan.scheduler.diagnosis import Diagnosis

_MOST = 2000
_MOST_WITH_NODES = 200
"""How many failed decisions keep the verdict of every node."""


@dataclass(frozen=True, slots=True)
class Decision:
    uid: str
    pod: str
    """The pod as `namespace/name`."""
    time: float
    attempt: int
    node: str = ""
    feasible: int = 0
    score: int = 0
    message: str = ""
    diagnosis: Diagnosis | None = None
    names: tuple[str, ...] = ()
    """The node names by row that the diagnosis refers to."""
    nominated: str = ""


class History:
    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, Decision] = OrderedDict()
        self._detailed: OrderedDict[str, None] = OrderedDict()

    def put(self, decision: Decision) -> None:
        self._by_uid[decision.uid] = decision
        self._by_uid.move_to_end(decision.uid)
        if len(self._by_uid) > _MOST:
            gone, _ = self._by_uid.popitem(last=False)
            self._detailed.pop(gone, None)
        if decision.diagnosis is not None:
            self._keep_detail(decision.uid)

    def of(self, uid: str) -> Decision | None:
        return self._by_uid.get(uid)

    def last(self) -> list[Decision]:
        return list(self._by_uid.values())

    def _keep_detail(self, uid: str) -> None:
        self._detailed[uid] = None
        self._detailed.move_to_end(uid)
        if len(self._detailed) > _MOST_WITH_NODES:
            old, _ = self._detailed.popitem(last=False)
            decision = self._by_uid.get(old)
            if decision is not None:
                self._by_uid[old] = Decision(
                    decision.uid,
                    decision.pod,
                    decision.time,
                    decision.attempt,
                    message=decision.message,
                    nominated=decision.nominated,
                )
