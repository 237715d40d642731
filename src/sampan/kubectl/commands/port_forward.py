"""`kubectl port-forward`: forward local ports to a pod.

If the target is a service or workload and its pod is deleted, existing connections end, and new connections are
forwarded to another pod. (kubectl itself exits instead.)
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.client.sockets import open_port_forward
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, duration_flag, string_slice_flag
from sampan.kubectl.errors import KubectlError, ServerError, UsageError
from sampan.kubectl.objects.pod_selection import Pod, activity_order, pods_of_object, target_object
from sampan.machinery.multiplex.port_forward import PortForwardSession
from sampan.machinery.multiplex.spdy import SpdyConnection

Ports = list[tuple[int, int]]
"""Pairs of a local and a remote port."""

_CHECK_INTERVAL_S = 1.0
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortForwardOptions:
    words: tuple[str, ...] = arguments()
    pod_running_timeout: float = duration_flag(
        "--pod-running-timeout", default_s=60.0, metavar="T", help="Time to wait for a running pod. Default: 1m."
    )
    address: tuple[str, ...] = string_slice_flag(
        "--address",
        default=("localhost",),
        metavar="LIST",
        help="Comma-separated local addresses to listen on: IP addresses or localhost.",
    )


@KubectlCommand.define("port-forward", PortForwardOptions)
def command(factory: Factory, options: PortForwardOptions) -> None:
    """Forward local ports to a pod."""
    if len(options.words) < 2:
        raise UsageError("TYPE/NAME and list of ports are required for port-forward")
    obj = target_object(factory, options.words[0])
    timeout_s = options.pod_running_timeout
    pods, is_pod = pods_of_object(factory.session, obj, "attach to", activity_order, timeout_s=timeout_s)
    pairs = [_pair(text, obj, pods[0]) for text in options.words[1:]]
    phase = (pods[0].get("status") or {}).get("phase")
    if phase != "Running":
        raise KubectlError(f"unable to forward port because pod is not running. Current status={phase}")
    ports = [_numbers(local, remote) for local, remote in pairs]
    forwarder = PortForwarder(
        session=factory.session, target=None if is_pod else obj, ports=ports, hosts=_hosts(options.address)
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(forwarder.run(pods[0], timeout_s))


# -- ports -----------------------------------------------------------------------------------------------------------


def _pair(text: str, obj: Pod, pod: Pod) -> tuple[str, str]:
    """Return the local and the remote port number of `8080:80`, `:80` or `80`. A port name is resolved with the object
    and its pod."""
    parts = text.split(":")
    local, remote = (parts[0], parts[1]) if len(parts) == 2 else (parts[0], parts[0])
    if obj.get("kind") == "Service":
        number = _service_port(obj, remote)
        _check_protocol(number, remote, _service_protocols(obj))
        local = str(number) if local == remote and not _NUMBER.fullmatch(remote) else local
        return local, str(_target_port(obj, pod, number))
    if not remote:
        raise KubectlError("remote port cannot be empty")
    number = int(remote) if _NUMBER.fullmatch(remote) else _container_port(pod, remote)
    _check_protocol(number, remote, _container_protocols(pod))
    return (str(number) if local == remote else local), str(number)


def _check_protocol(number: int, text: str, protocols: Mapping[int, set[str]]) -> None:
    if protocols.get(number) == {"UDP"}:
        raise KubectlError(f"UDP protocol is not supported for {text}")


def _service_protocols(service: Pod) -> dict[int, set[str]]:
    protocols: dict[int, set[str]] = {}
    for port in (service.get("spec") or {}).get("ports") or ():
        protocols.setdefault(int(port["port"]), set()).add(port.get("protocol", "TCP"))
    return protocols


def _container_protocols(pod: Pod) -> dict[int, set[str]]:
    protocols: dict[int, set[str]] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            protocols.setdefault(int(port["containerPort"]), set()).add(port.get("protocol", "TCP"))
    return protocols


def _service_port(service: Pod, text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("name") == text:
            return int(port["port"])
    raise KubectlError(f"Service '{service['metadata']['name']}' does not have a named port '{text}'")


def _target_port(service: Pod, pod: Pod, number: int) -> int:
    spec = service.get("spec") or {}
    for port in spec.get("ports") or ():
        if port["port"] != number:
            continue
        if spec.get("clusterIP") == "None":
            return number
        target = port.get("targetPort") or number
        return target if isinstance(target, int) else _container_port(pod, target)
    raise KubectlError(f"Service {service['metadata']['name']} does not have a service port {number}")


def _container_port(pod: Pod, name: str) -> int:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name:
                return int(port["containerPort"])
    raise KubectlError(f"Pod '{pod['metadata']['name']}' does not have a named port '{name}'")


def _numbers(local: str, remote: str) -> tuple[int, int]:
    return _number(local or "0", "local"), _number(remote, "remote")


def _number(text: str, side: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise KubectlError(f"error parsing {side} port '{text}': strconv.ParseUint: parsing \"{text}\": invalid syntax")
    number = int(text)
    if not 0 <= number <= 65535:
        reason = "value out of range" if number > 0 else "invalid syntax"
        raise KubectlError(f"error parsing {side} port '{text}': strconv.ParseUint: parsing \"{text}\": {reason}")
    if side == "remote" and number == 0:
        raise KubectlError("remote port must be > 0")
    return number


def _hosts(addresses: tuple[str, ...]) -> list[str]:
    import ipaddress

    hosts: list[str] = []
    for address in addresses:
        if address == "localhost":
            hosts += ["127.0.0.1", "::1"]
            continue
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise KubectlError(f"{address} is not a valid IP") from None
        hosts.append(address)
    return list(dict.fromkeys(hosts))


# -- forwarding ------------------------------------------------------------------------------------------------------


class PortForwarder:
    """Listens on local ports and forwards connections to ports of a pod. `target` is the object whose selector finds
    another pod when the pod disappears; None if the pod itself is the target."""

    def __init__(self, *, session: Session, target: Pod | None, ports: Ports, hosts: list[str]) -> None:
        self._session = session
        self._target = target
        self._ports = ports
        self._hosts = hosts
        self._forwarding: PortForwardSession | None = None

    async def run(self, pod: Pod, timeout_s: float) -> None:
        async with AsyncExitStack() as listening:
            is_listening = False
            while True:
                wire = await open_port_forward(self._session, _path(pod))
                async with SpdyConnection(wire, is_server=False) as connection:
                    self._forwarding = PortForwardSession(connection, lambda text: click.echo(f"E {text}", err=True))
                    if not is_listening:
                        await self._listen(listening)
                        is_listening = True
                    await self._wait_for_end(connection, pod)
                self._forwarding = None
                if self._target is None:
                    raise KubectlError("lost connection to pod")
                pod = await asyncio.to_thread(self._wait_for_next_pod, self._target, pod, timeout_s)

    async def _wait_for_end(self, connection: SpdyConnection, pod: Pod) -> None:
        """Wait until the connection is closed or, if the pod can be replaced, until it is about to be deleted."""
        while not connection.closed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connection.closed.wait(), _CHECK_INTERVAL_S)
            if self._target is not None and not await asyncio.to_thread(self._is_alive, pod):
                return

    def _is_alive(self, pod: Pod) -> bool:
        try:
            current = self._session.get(_path(pod).removesuffix("/portforward"))
        except (ServerError, KubectlError):
            return False
        is_same = current["metadata"].get("uid") == pod["metadata"].get("uid")
        return is_same and "deletionTimestamp" not in current["metadata"]

    def _wait_for_next_pod(self, target: Pod, lost: Pod, timeout_s: float) -> Pod:
        import time

        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(ServerError):
                pods, _ = pods_of_object(self._session, target, "attach to", activity_order, timeout_s=1)
                for pod in pods:
                    is_running = (pod.get("status") or {}).get("phase") == "Running"
                    if is_running and self._is_alive(pod) and pod["metadata"]["uid"] != lost["metadata"]["uid"]:
                        return pod
            time.sleep(_CHECK_INTERVAL_S)
        raise KubectlError("lost connection to pod")

    async def _listen(self, listening: AsyncExitStack) -> None:
        count = 0
        for local, remote in self._ports:
            failures = []
            number = local
            for host in self._hosts:
                try:
                    server = await asyncio.start_server(partial(self._join, remote), host, number)
                except OSError as error:
                    failures.append(_listen_error(host, number, error))
                    continue
                await listening.enter_async_context(server)
                count += 1
                number = server.sockets[0].getsockname()[1]
                click.echo(f"Forwarding from {f'[{host}]' if ':' in host else host}:{number} -> {remote}")
            if len(failures) == len(self._hosts):
                errors = " ".join(failures)
                reason = f"Listeners failed to create with the following errors: [{errors}]"
                click.echo(f"Unable to listen on port {local}: {reason}", err=True)
        if not count:
            pairs = " ".join(f"{{{local} {remote}}}" for local, remote in self._ports)
            raise KubectlError(f"unable to listen on any of the requested ports: [{pairs}]")

    async def _join(self, remote: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        local, forwarding = writer.get_extra_info("sockname")[1], self._forwarding
        click.echo(f"Handling connection for {local}")
        if forwarding is None:
            writer.close()
            return
        await forwarding.join(reader, writer, local, remote)


def _path(pod: Pod) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/portforward"


def _listen_error(host: str, port: int, error: OSError) -> str:
    family, address = ("tcp6", f"[{host}]") if ":" in host else ("tcp4", host)
    import os

    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"unable to create listener: Error listen {family} {address}:{port}: bind: {reason.lower()}"
