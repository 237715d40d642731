"""What follows the services of a node beside the packet rules: health checks, conntrack, node ports on localhost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sampan.network.proxy.tracker import ServiceChange


class ServiceObserver(Protocol):
    """Is called by the runner of a proxy after each successful sync, with the changes that the sync applied.

    The first call has all services. Calls do not overlap. An observer reports its own failures (log, event), because a
    failure of an observer must not stop the sync of the packet rules.
    """

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None: ...
