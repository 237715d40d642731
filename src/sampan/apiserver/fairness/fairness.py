"""Flow schemas and priority levels combined: the flow of a request, and the seats of each level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from sampan.api.types.flowcontrol_v1 import FlowSchema, LimitedPriorityLevelConfiguration, PriorityLevelConfiguration
from sampan.apiserver.authz.attributes import attributes_of
from sampan.apiserver.call import Call
from sampan.apiserver.fairness.borrowing import Borrowing
from sampan.apiserver.fairness.flows import Flow, Schemas
from sampan.apiserver.fairness.level import Level, Limits


class Fairness:
    def __init__(self, *, seats: int, width: Callable[[Call], int] = lambda call: 1) -> None:
        self.width = width
        """Returns how many seats a request occupies."""
        self._seats = seats
        """The total number of seats."""
        self._schemas = Schemas(())
        self._uids: dict[str, str] = {}
        self.levels: dict[str, Level] = {}
        """The limited levels by name; a level that is not here is exempt."""
        self._borrowing = Borrowing(seats=seats)

    def configure(self, schemas: Iterable[FlowSchema], levels: Iterable[PriorityLevelConfiguration]) -> None:
        """Replace schemas and levels. Requests in a removed level still finish."""
        levels_by_name = {level.metadata.name: level for level in levels}
        self._uids = {name: level.metadata.uid for name, level in levels_by_name.items()}
        self._schemas = Schemas(
            schema for schema in schemas if schema.spec.priorityLevelConfiguration.name in levels_by_name
        )
        limited = _limits(levels_by_name.values(), self._seats)
        for name, limits in limited.items():
            if name in self.levels:
                self.levels[name].configure(limits)
            else:
                self.levels[name] = Level(name, limits)
        for name in self.levels.keys() - limited.keys():
            del self.levels[name]

    def flow(self, call: Call) -> Flow | None:
        """Return the flow of a classified request; None if no schema matches, or none is loaded yet."""
        return self._schemas.flow(attributes_of(call))

    def look(self) -> None:
        """Sample the demand of the levels and adjust borrowing."""
        self._borrowing.look(self.levels)

    def level_uid(self, flow: Flow) -> str:
        return self._uids.get(flow.level, "")


def _limits(levels: Iterable[PriorityLevelConfiguration], seats: int) -> dict[str, Limits]:
    """Return the nominal seats of the limited levels in proportion to their shares, rounded up."""
    limited = {level.metadata.name: level.spec.limited for level in levels if level.spec.limited is not None}
    shares = {name: level.nominalConcurrencyShares or 0 for name, level in limited.items()}
    total = sum(shares.values()) or 1
    return {name: _level_limits(level, math.ceil(seats * shares[name] / total)) for name, level in limited.items()}


def _level_limits(spec: LimitedPriorityLevelConfiguration, seats: int) -> Limits:
    lendable = round(seats * (spec.lendablePercent or 0) / 100)
    percent = spec.borrowingLimitPercent
    borrowable = None if percent is None else round(seats * percent / 100)
    queuing = spec.limitResponse.queuing
    if spec.limitResponse.type != "Queue" or queuing is None:
        return Limits(seats, lendable=lendable, borrowable=borrowable)
    return Limits(seats, queuing.queues, queuing.handSize, queuing.queueLengthLimit, lendable, borrowable)
