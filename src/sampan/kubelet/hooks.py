"""Runs lifecycle hooks: postStart and preStop (`pkg/kubelet/lifecycle/handlers.go`)."""

from __future__ import annotations

from collections.abc import Sequence

from yarl import URL

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import HTTPGetAction, LifecycleHandler, Pod
from sampan.kubelet.pod_events import full_name
from sampan.kubelet.probes.prober import headers_of, port_of, probe_tcp, unverified, url_of
from sampan.machinery.clock import Clock
from sampan.machinery.http_session import HttpSession, get_following
from sampan.machinery.lean_aiohttp import aiohttp
from sampan.runtimes.contract import Runtime, RuntimeFailure
from sampan.runtimes.streams import collected

_MOST_OUTPUT = 10 << 10
_CONNECT_S = 30.0
AGENT = "kube-lifecycle/1.36"


class HookFailed(Exception):
    """The hook failed. The message is for the container status; events omit it because it may contain secrets."""


class Hooks:
    def __init__(self, *, runtime: Runtime, clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock

    async def run(self, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        """Run the hook to completion. Raise HookFailed if it fails."""
        where = f"for Container {gotext.quote(container.name)} in Pod {gotext.quote(full_name(pod))} failed - error"
        if hook.exec is not None:
            await self._exec(pod, container, hook.exec.command, where)
        elif hook.httpGet is not None:
            await self._http(pod, container, hook.httpGet, where)
        elif hook.sleep is not None:
            await self._clock.sleep(hook.sleep.seconds)
        elif hook.tcpSocket is not None:
            await self._tcp(pod, container, hook, where)
        else:
            raise HookFailed("Cannot run handler: invalid handler")

    async def _exec(self, pod: Pod, container: AnyContainer, command: Sequence[str], where: str) -> None:
        try:
            stream = await self._runtime.exec(pod, container.name, command)
            code, out, err = await collected(stream, _MOST_OUTPUT)
        except RuntimeFailure as failure:
            message, output = failure.message, ""
        else:
            if code == 0:
                return
            message = f"command '{' '.join(command)}' exited with {code}: {err.decode('utf-8', 'replace')}"
            output = (out + err).decode("utf-8", "replace")
        raise HookFailed(
            f"Exec lifecycle hook ([{' '.join(command)}]) {where}: {message}, message: {gotext.quote(output)}"
        )

    async def _http(self, pod: Pod, container: AnyContainer, action: HTTPGetAction, where: str) -> None:
        """Send the request. Any HTTP response counts as success."""
        try:
            url = url_of(action, self._address(pod), _port(action.port, container))
            await _get(url, {**headers_of(action), "User-Agent": AGENT})
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HookFailed(f"HTTP lifecycle hook ({action.path}) {where}: {error}") from None

    async def _tcp(self, pod: Pod, container: AnyContainer, hook: LifecycleHandler, where: str) -> None:
        assert hook.tcpSocket is not None
        try:
            host = hook.tcpSocket.host or self._address(pod)
            response = await probe_tcp(host, _port(hook.tcpSocket.port, container), _CONNECT_S)
        except ValueError as error:
            raise HookFailed(f"TCP lifecycle hook {where}: {error}") from None
        if not response.is_success:
            raise HookFailed(f"TCP lifecycle hook {where}: {response.text}")

    def _address(self, pod: Pod) -> str:
        ips = self._runtime.pod_report(pod).ips
        address = ips[0] if ips else pod.status.podIP or pod.status.hostIP
        if not address:
            raise ValueError("failed to find networking container")
        return address


def _port(port: int | str, container: AnyContainer) -> int:
    return port_of(port, container)  # type: ignore[arg-type]  # ephemeral containers have neither ports nor hooks


async def _get(url: str, headers: dict[str, str]) -> None:
    connector = aiohttp.TCPConnector(ssl=unverified(), force_close=True, limit=1)
    async with HttpSession(connector=connector, skip_auto_headers=["User-Agent"]) as session:
        try:
            async with get_following(session, URL(url, encoded=True), headers) as response:
                await response.content.read(_MOST_OUTPUT)
        except aiohttp.ClientConnectorSSLError:
            if not url.startswith("https:"):
                raise
            plain = "http:" + url.removeprefix("https:")
            kept = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            async with get_following(session, URL(plain, encoded=True), kept) as response:
                await response.content.read(_MOST_OUTPUT)
