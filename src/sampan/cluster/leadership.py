"""Leader election for the controllers and the scheduler of `sampan up`.

A component that is a separate process exits when it loses its lease. `sampan up` also serves the API, so it becomes a
candidate again instead.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from sampan.machinery.control_loop.leader_election import ElectionConfig, LeaderElector

log = logging.getLogger(__name__)


def _identity() -> str:
    import uuid

    return f"{socket.gethostname()}_{os.getpid()}-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipConfig:
    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0
    identity: str = field(default_factory=_identity)

    def election(self, name: str) -> ElectionConfig:
        from sampan.machinery.control_loop.leader_election import ElectionConfig

        return ElectionConfig(
            name=name, identity=self.identity, lease_s=self.lease_s, renew_s=self.renew_s, retry_s=self.retry_s
        )


class Leadership:
    """Runs work while this process is the leader. If `config` is None, the work runs without leader election."""

    def __init__(self, *, config: LeadershipConfig | None, clock: Clock, metrics: Metrics) -> None:
        self._config, self._clock = config, clock
        self._electors: dict[str, LeaderElector] = {}
        if config is not None:
            metrics.function(
                "leader_election_master_status",
                "Whether this process is the leader (1) or not (0).",
                lambda: (((name,), float(elector.is_leader)) for name, elector in self._electors.items()),
                ("name",),
            )

    @property
    def leads(self) -> Mapping[str, bool]:
        """Whether this process is the leader, by name of the Lease."""
        return {name: elector.is_leader for name, elector in self._electors.items()}

    async def run(self, name: str, client: Client, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` each time that this process becomes the leader, until it completes or is cancelled."""
        if self._config is None:
            return await work()
        from sampan.machinery.control_loop.leader_election import (  # needed only with leader election
            LeaderElector,
            LeadershipLost,
        )

        while True:
            elector = self._electors[name] = LeaderElector(
                client=client, clock=self._clock, config=self._config.election(name)
            )
            try:
                return await elector.run(work)
            except LeadershipLost as lost:
                log.warning("lost the leader election of %s, becoming a candidate again: %s", name, lost)
