"""The extension points after a node is selected, from Reserve on, with one runner for synchronous plugins and one for
asynchronous ones.

An exception in a plugin becomes an Error status, so that the pod releases its reservations and is retried.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from sampan.scheduler.framework.contract import Code, CycleState, Status
from sampan.scheduler.framework.extension_points import (
    ExtensionPoints,
    PreBindPreFlight,
    PreBindRollback,
    SchedulerPlugin,
    UnreservePlugin,
)
from sampan.scheduler.framework.metrics import PointMetrics
from sampan.scheduler.framework.plugin_failure import find_plugin_failure

P = TypeVar("P", bound=SchedulerPlugin)

log = logging.getLogger(__name__)

_SUCCESS_CODES = (Code.SUCCESS, Code.SKIP)
_SUCCESS = Status(Code.SUCCESS)


class BindingPoints:
    def __init__(self, points: ExtensionPoints, metrics: PointMetrics) -> None:
        self._points, self._metrics = points, metrics
        self._unreserve = [plugin for plugin in reversed(points.reserve) if isinstance(plugin, UnreservePlugin)]
        self._rollback = [plugin for plugin in reversed(points.pre_bind) if isinstance(plugin, PreBindRollback)]
        self._pre_flights = [plugin for plugin in points.pre_bind if isinstance(plugin, PreBindPreFlight)]
        self._always_pre_binds = len(self._pre_flights) < len(points.pre_bind)
        """Whether there is a PreBind plugin that does not tell for which pods it has work to do."""

    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        """Run the Reserve plugins; return None on success, otherwise undo the reservations and return the status."""
        with self._metrics.point("Reserve") as measured:
            for plugin in _applicable(self._points.reserve, cycle):
                status = self._run("Reserve", plugin, plugin.reserve, cycle, node)
                if status.code is not Code.SUCCESS:
                    measured.code = status.code
                    self.unreserve(cycle, node)
                    return status
        return None

    def unreserve(self, cycle: CycleState, node: str) -> None:
        with self._metrics.point("Unreserve"):
            for plugin in _applicable(self._unreserve, cycle):
                self._run("Unreserve", plugin, plugin.unreserve, cycle, node)

    async def rollback_pre_bind(self, cycle: CycleState, node: str) -> None:
        """Undo on the server what PreBind plugins wrote for a pod that is not bound."""
        for plugin in _applicable(self._rollback, cycle):
            await self._run_async("Unreserve", plugin, plugin.rollback_pre_bind, cycle, node)

    def permit(self, cycle: CycleState, node: str) -> tuple[Status | None, dict[str, float]]:
        """Run the Permit plugins; return a rejection, or how many seconds each plugin wants the pod to wait."""
        waits: dict[str, float] = {}
        with self._metrics.point("Permit") as measured:
            for plugin in self._points.permit:
                status = self._run("Permit", plugin, plugin.permit, cycle, node)
                if status.code is Code.WAIT:
                    waits[plugin.name] = status.wait_s
                elif status.code is not Code.SUCCESS:
                    measured.code = status.code
                    return status, {}
            measured.code = Code.WAIT if waits else Code.SUCCESS
        return None, waits

    def has_pre_bind(self, cycle: CycleState, node: str) -> bool:
        """Whether any PreBind plugin has work to do for the pod; one without `has_pre_bind` is assumed to."""
        return self._always_pre_binds or any(
            _has_pre_bind(plugin, cycle, node) for plugin in _applicable(self._pre_flights, cycle)
        )

    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        with self._metrics.point("PreBind") as measured:
            for plugin in _applicable(self._points.pre_bind, cycle):
                status = await self._run_async("PreBind", plugin, plugin.pre_bind, cycle, node)
                if status.code not in _SUCCESS_CODES:
                    measured.code = status.code
                    return status
        return None

    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        """Bind the pod through the first Bind plugin that does not return SKIP."""
        with self._metrics.point("Bind") as measured:
            for plugin in self._points.bind:
                status = await self._run_async("Bind", plugin, plugin.bind, cycle, node)
                if status.code is Code.SUCCESS:
                    return None
                if status.code is not Code.SKIP:
                    measured.code = status.code
                    return status
            measured.code = Code.ERROR
        return Status(Code.ERROR, ("no plugin binds pods",))

    def post_bind(self, cycle: CycleState, node: str) -> None:
        if self._points.post_bind:
            with self._metrics.point("PostBind"):
                for plugin in self._points.post_bind:
                    self._run("PostBind", plugin, plugin.post_bind, cycle, node)

    # -- the runners -------------------------------------------------------------------------------------------------

    def _run(
        self,
        point: str,
        plugin: SchedulerPlugin,
        call: Callable[[CycleState, str], Status | None],
        cycle: CycleState,
        node: str,
    ) -> Status:
        with self._metrics.plugin(point, plugin.name) as measured:
            try:
                status = call(cycle, node)
            except Exception as error:
                status = _error_status(point, plugin, error)
            if status is None:
                return _SUCCESS
            measured.code = status.code
        return _add_plugin_to_status(point, plugin, status)

    async def _run_async(
        self,
        point: str,
        plugin: SchedulerPlugin,
        call: Callable[[CycleState, str], Awaitable[Status | None]],
        cycle: CycleState,
        node: str,
    ) -> Status:
        with self._metrics.plugin(point, plugin.name) as measured:
            try:
                status = await call(cycle, node)
            except Exception as error:
                status = _error_status(point, plugin, error)
            if status is None:
                return _SUCCESS
            measured.code = status.code
        return _add_plugin_to_status(point, plugin, status)


def _applicable(plugins: Sequence[P], cycle: CycleState) -> Iterator[P]:
    """Return the plugins that have something to do for pods with this signature."""
    return (plugin for plugin in plugins if plugin.name not in cycle.inapplicable)


def _has_pre_bind(plugin: PreBindPreFlight, cycle: CycleState, node: str) -> bool:
    try:
        return plugin.has_pre_bind(cycle, node)
    except Exception:
        log.exception("scheduler plugin %s failed at PreBind", plugin.name)
        return True


def _add_plugin_to_status(point: str, plugin: SchedulerPlugin, status: Status) -> Status:
    """Return the status with the name of the plugin; an error also gets the extension point."""
    if status.code is Code.ERROR:
        status = replace(status, reasons=(f'running {point} plugin "{plugin.name}": {status.message}',))
    return replace(status, plugin=plugin.name)


def _error_status(point: str, plugin: SchedulerPlugin, error: Exception) -> Status:
    log.exception("scheduler plugin %s failed at %s", plugin.name, point)
    failure = find_plugin_failure(error, lambda value: plugin.name if value is plugin else "")
    return Status(Code.ERROR, (str(failure or error) or type(error).__name__,))
