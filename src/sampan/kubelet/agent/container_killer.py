"""Lifecycle hooks of containers, and the stop of a container. Its preStop hook runs in the background, then the
container is stopped, all within the grace period.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from yarl import URL

from sampan.api.go_compat import gotext
from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.api.semantics.pods import AnyContainer, find_container
from sampan.api.types.core_v1 import HTTPGetAction, LifecycleHandler, Pod
from sampan.host.clock import Clock
from sampan.kubelet.cancellation import WorkCancelled, run_until
from sampan.kubelet.pod_events import PodEvents, PodTrace, full_name
from sampan.kubelet.probes.prober import headers_of, make_unverified_context, port_of, probe_tcp, url_of
from sampan.kubelet.records import PodRecord
from sampan.machinery.events import WARNING
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession, get_following
from sampan.runtimes.contract import Runtime, RuntimeFailure, collect_output

_MAX_OUTPUT_BYTES = 10 << 10
_CONNECT_S = 30.0
AGENT = f"kube-lifecycle/{MINOR_VERSION}"
log = logging.getLogger(__name__)

_MIN_GRACE_S = 2.0
"""Minimum grace period of a container after its preStop hook, however long the hook took."""


class HookFailed(Exception):
    """The hook failed. The message is for the container status; events omit it because it may contain secrets."""


class LifecycleHookRunner:
    def __init__(self, *, runtime: Runtime, clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock

    async def run(self, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        """Run the hook to completion. Raise HookFailed if it fails."""
        context = f"for Container {gotext.quote(container.name)} in Pod {gotext.quote(full_name(pod))} failed - error"
        if hook.exec is not None:
            await self._exec(pod, container, hook.exec.command, context)
        elif hook.httpGet is not None:
            await self._http(pod, container, hook.httpGet, context)
        elif hook.sleep is not None:
            await self._clock.sleep(hook.sleep.seconds)
        elif hook.tcpSocket is not None:
            await self._tcp(pod, container, hook, context)
        else:
            raise HookFailed("Cannot run handler: invalid handler")

    async def _exec(self, pod: Pod, container: AnyContainer, command: Sequence[str], context: str) -> None:
        try:
            stream = await self._runtime.exec(pod, container.name, command)
            code, out, err = await collect_output(stream, _MAX_OUTPUT_BYTES)
        except RuntimeFailure as failure:
            message, output = failure.message, ""
        else:
            if code == 0:
                return
            message = f"command '{' '.join(command)}' exited with {code}: {err.decode('utf-8', 'replace')}"
            output = (out + err).decode("utf-8", "replace")
        raise HookFailed(
            f"Exec lifecycle hook ([{' '.join(command)}]) {context}: {message}, message: {gotext.quote(output)}"
        )

    async def _http(self, pod: Pod, container: AnyContainer, action: HTTPGetAction, context: str) -> None:
        """Send the request. Any HTTP response counts as success."""
        try:
            url = url_of(action, self._address(pod), _port(action.port, container))
            await _get(url, {**headers_of(action), "User-Agent": AGENT})
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HookFailed(f"HTTP lifecycle hook ({action.path}) {context}: {error}") from None

    async def _tcp(self, pod: Pod, container: AnyContainer, hook: LifecycleHandler, context: str) -> None:
        assert hook.tcpSocket is not None
        try:
            host = hook.tcpSocket.host or self._address(pod)
            response = await probe_tcp(host, _port(hook.tcpSocket.port, container), _CONNECT_S)
        except ValueError as error:
            raise HookFailed(f"TCP lifecycle hook {context}: {error}") from None
        if not response.is_success:
            raise HookFailed(f"TCP lifecycle hook {context}: {response.text}")

    def _address(self, pod: Pod) -> str:
        ips = self._runtime.pod_report(pod).ips
        address = ips[0] if ips else pod.status.podIP or pod.status.hostIP
        if not address:
            raise ValueError("failed to find networking container")
        return address


def _port(port: int | str, container: AnyContainer) -> int:
    return port_of(port, container)  # type: ignore[arg-type]  # ephemeral containers have neither ports nor hooks


async def _get(url: str, headers: dict[str, str]) -> None:
    connector = aiohttp.TCPConnector(ssl=make_unverified_context(), force_close=True, limit=1)
    async with HttpSession(connector=connector, skip_auto_headers=["User-Agent"]) as session:
        try:
            async with get_following(session, URL(url, encoded=True), headers) as response:
                await response.content.read(_MAX_OUTPUT_BYTES)
        except aiohttp.ClientConnectorSSLError:
            if not url.startswith("https:"):
                raise
            plain = "http:" + url.removeprefix("https:")
            headers_without_token = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            async with get_following(session, URL(plain, encoded=True), headers_without_token) as response:
                await response.content.read(_MAX_OUTPUT_BYTES)


class ContainerKiller:
    """Stops containers, each after its preStop hook. It is an async context manager; leaving it cancels hooks in
    progress.
    """

    def __init__(
        self, *, runtime: Runtime, hooks: LifecycleHookRunner, events: PodEvents, trace: PodTrace, clock: Clock
    ) -> None:
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
        """Start stopping the container. If it is being stopped already, no longer wait for its hook, but stop it within
        `grace_s`.
        """
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
        """Cancel the hooks in progress of a pod none of whose containers runs any more."""
        for key in [key for key in self._stops if key[0] == uid]:
            self._stops.pop(key).cancel()

    async def _stop_with_hook(
        self, record: PodRecord, container: AnyContainer, hook: LifecycleHandler, grace_s: float
    ) -> None:
        pod, by = record.pod, self._clock.monotonic() + grace_s
        await self._run_hook(record, container, hook, grace_s)
        left_s = max(by - self._clock.monotonic(), _MIN_GRACE_S)
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
        except WorkCancelled:
            log.info(
                "preStop hook of container %s of pod %s did not finish within the grace period",
                container.name,
                record.uid,
            )
        except HookFailed:
            text = "PreStopHook failed"
            self._events.record_container_event(record.node, record.pod, container, WARNING, "FailedPreStopHook", text)
        except Exception:  # The container is stopped whatever its hook does, and other containers must not be affected.
            log.exception("preStop hook of container %s of pod %s failed", container.name, record.uid)
