"""The controller manager, which starts the enabled controllers on shared informers."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from sampan.controllers.controller_table import CONTROLLERS
from sampan.controllers.descriptor import ControllerConfig, ControllerContext, ControllerDescriptor
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.control_loop.controller import ControllerRunner
from sampan.machinery.control_loop.supervision import NoSupervision, Supervision
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder

ALL = "*"


class UnknownController(ValueError):
    """--controllers names a controller that does not exist."""


def resolve_enabled_names(words: Sequence[str], defaults: Mapping[str, bool], aliases: Mapping[str, str]) -> list[str]:
    """Return the names that `words` enable, in the order of `defaults`, which maps each name to whether `*` includes
    it.

    `name` enables a controller, `-name` disables it, and `*` enables those that are on by default. The first word about
    a name wins. Former names are accepted as `aliases`.
    """
    switches: dict[str, bool] = {}
    for word in words:
        if word == ALL:
            continue
        is_on = not word.startswith("-")
        name = word.removeprefix("-")
        name = aliases.get(name, name)
        if name not in defaults:
            raise UnknownController(f'"{name}" is not in the list of known controllers')
        switches.setdefault(name, is_on)
    has_star = ALL in words
    return [name for name, by_default in defaults.items() if switches.get(name, has_star and by_default)]


log = logging.getLogger(__name__)

COMPONENT = "kube-controller-manager"


class ControllerManager:
    """Runs the enabled controllers. `client_for("")` returns the client of the shared informers.

    Controllers, informers and event recorders are supervised one by one: the failure of one leaves the others running.
    """

    def __init__(
        self,
        *,
        client_for: Callable[[str], Client],
        clock: Clock,
        names: Sequence[str] = (ALL,),
        config: ControllerConfig | None = None,
        recorder: FlightRecorder | None = None,
        table: Sequence[ControllerDescriptor] = CONTROLLERS,
        supervision: Supervision | None = None,
    ) -> None:
        self._supervision = supervision or NoSupervision()
        self.activity = Activity()
        """Pending work of queues and informers, for which a virtual clock waits."""
        self.informers = InformerFactory(client=client_for(""), activity=self.activity, supervision=self._supervision)
        self._clock, self._client_for, self._recorder = clock, client_for, recorder
        self._events: list[tuple[str, EventRecorder]] = []
        enabled = set(select_controllers(names, table))
        controllers = [
            (row, row.build(self._context(row, config or ControllerConfig()))) for row in table if row.name in enabled
        ]
        self.runners = [
            ControllerRunner(
                controller=controller,
                informers=self.informers,
                clock=clock,
                activity=self.activity,
                config=row.runner,
                recorder=recorder,
            )
            for row, controller in controllers
            if controller is not None
        ]

    def _context(self, row: ControllerDescriptor, config: ControllerConfig) -> ControllerContext:
        return ControllerContext(
            name=row.name,
            event_source=row.event_source or row.name,
            client_for=self._client_for,
            events_for=self._events_for,
            informers=self.informers,
            clock=self._clock,
            config=config,
            recorder=self._recorder,
        )

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        log.info("starting controllers: %s", ", ".join(runner.controller.name for runner in self.runners) or "none")
        async with self.informers, asyncio.TaskGroup() as group:
            for name, events in self._events:
                group.create_task(self._supervision.run(f"events of {name}", events.run))
            for runner in self.runners:
                name = runner.controller.name
                group.create_task(self._supervision.run(name, runner.run), name=name)

    def _events_for(self, name: str, source: str) -> EventRecorder:
        recorder = EventRecorder(
            client=self._client_for(name), clock=self._clock, component=source, activity=self.activity
        )
        self._events.append((name, recorder))
        return recorder


def select_controllers(words: Sequence[str], table: Sequence[ControllerDescriptor] = CONTROLLERS) -> list[str]:
    """Return the controllers enabled by the values of --controllers.

    Raise UnknownController if a value names no controller, or enables one that only Sampan lacks. A controller whose
    feature gates are off does not run with Kubernetes either.
    """
    defaults = {row.name: row.is_on for row in table}
    names = resolve_enabled_names(words, defaults, {alias: row.name for row in table for alias in row.aliases})
    for row in table:
        if row.name in names and not row.controller and not row.gates:
            raise UnknownController(f'"{row.name}" is not implemented in Sampan')
    return names
