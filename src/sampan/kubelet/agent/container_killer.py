"""Stops containers: runs the preStop hook in the background, then stops the container, all within the grace period."""

from __future__ import annotations

import asyncio
import logging

from sampan.api.semantics.pods import AnyContainer, find_container
from sampan.api.types.core_v1 import LifecycleHandler
from sampan.kubelet.cancellation import Cancelled, run_until
from sampan.kubelet.hooks import HookFailed, Hooks
from sampan.kubelet.pod_events import PodEvents, PodTrace
from sampan.kubelet.records import PodRecord
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING
from sampan.runtimes.contract import Runtime, RuntimeFailure

log = logging.getLogger(__name__)

_LEAST_GRACE_S = 2.0
"""Minimum grace period of a container after its preStop hook, however long that took."""


class ContainerKiller:
    """An async context manager; leaving it cancels hooks in progress."""

    def __init__(self, *, runtime: Runtime, hooks: Hooks, events: PodEvents, trace: PodTrace, clock: Clock) -> None:
        self._runtime, self._hooks, self._events, self._trace, self._clock = runtime, hooks, events, trace, clock
        self._group = asyncio.TaskGroup()
        self._stops: dict[tuple[str, str], asyncio.Task[None]] = {}
        """Stops in progress of containers with a hook, by pod UID and container ID."""

    async def __aenter__(self) -> ContainerKiller:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._stops.values():
            task.cancel()
        await self._group.__aexit__(None, None, None)

    async def stop(self, record: PodRecord, name: str, grace_s: float) -> None:
        """Start stopping the container. A second call, with a shorter grace period, no longer waits for the hook."""
        pod = record.pod
        present = self._runtime.pod_report(pod).container(name)
        key = (record.uid, present.id if present is not None else "")
        container = find_container(pod.spec, name)
        hook = container.lifecycle.preStop if container is not None and container.lifecycle is not None else None
        under_way = self._stops.get(key)
        if under_way is not None and not under_way.done():
            under_way.cancel()
        elif container is not None and hook is not None and grace_s > 0 and under_way is None:
            self._stops[key] = self._group.create_task(self._stop_with_hook(record, container, hook, grace_s))
            return
        await self._runtime.stop_container(pod, name, grace_s)
        self._trace.note(pod, "stop", f"{name} within {grace_s:g} s")

    def forget(self, uid: str) -> None:
        """Cancel what is in progress for a pod none of whose containers runs any more."""
        for key in [key for key in self._stops if key[0] == uid]:
            self._stops.pop(key).cancel()

    async def _stop_with_hook(
        self, record: PodRecord, container: AnyContainer, hook: LifecycleHandler, grace_s: float
    ) -> None:
        pod, by = record.pod, self._clock.monotonic() + grace_s
        await self._run_hook(record, container, hook, grace_s)
        left_s = max(by - self._clock.monotonic(), _LEAST_GRACE_S)
        try:
            await self._runtime.stop_container(pod, container.name, left_s)
        except RuntimeFailure as failure:
            log.warning("cannot stop container %s of pod %s: %s", container.name, record.uid, failure.message)
            return
        self._trace.note(pod, "stop", f"{container.name} within {left_s:g} s, after its hook")

    async def _run_hook(
        self, record: PodRecord, container: AnyContainer, hook: LifecycleHandler, grace_s: float
    ) -> None:
        """Run the hook until it completes or the grace period is over."""
        try:
            await run_until(self._clock.sleep(grace_s), self._hooks.run(record.pod, container, hook))
        except Cancelled:
            log.info(
                "preStop hook of container %s of pod %s did not finish within the grace period",
                container.name,
                record.uid,
            )
        except HookFailed:
            text = "PreStopHook failed"
            self._events.container(record.node, record.pod, container, WARNING, "FailedPreStopHook", text)
        except Exception:  # The container is stopped whatever its hook does, and other containers must not be affected.
            log.exception("preStop hook of container %s of pod %s failed", container.name, record.uid)
