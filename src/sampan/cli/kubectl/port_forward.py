"""`kubectl port-forward`: forward local ports to a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.chosen_pods import chosen_pod, pod_and_rest
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.session import Session
from sampan.cli.kubectl.sockets import open_socket
from sampan.machinery.multiplex.port_forward import PROTOCOLS, Forwarding
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.upgrade import Tunnel

Ports = list[tuple[int, int]]
"""Pairs of a local and a remote port."""


@click.command("port-forward", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    metavar="LIST",
    help="Comma-separated local addresses to listen on.",
)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Forward local ports to a pod.

    \b
    Examples:
      sampan kubectl port-forward POD 8080:80
      sampan kubectl port-forward svc/web :80
    """
    name, texts = pod_and_rest(words)
    if not texts:
        raise CliError("TYPE/NAME and list of ports are required for port-forward")
    session = factory.session
    pod = chosen_pod(session, name)
    if (phase := pod.get("status", {}).get("phase")) != "Running":
        raise CliError(f"unable to forward port because pod is not running. Current status={phase}")
    service = _service(factory, name)
    ports = [_port(text, pod, service) for text in texts]
    with suppress(KeyboardInterrupt):
        asyncio.run(_forward(session, pod, ports, _hosts(options["address"])))


def _service(factory: Factory, word: str) -> Mapping[str, Any] | None:
    kind, slash, name = word.partition("/")
    if not slash or (resource := factory.kinds.named(kind)).plural != "services" or resource.group:
        return None
    service: Mapping[str, Any] = factory.session.get(resource.object(factory.namespace, name))
    return service


def _port(text: str, pod: Mapping[str, Any], service: Mapping[str, Any] | None) -> tuple[int, int]:
    local, colon, remote = text.partition(":")
    if not colon:
        remote = local
    number = _remote(remote, pod, service)
    if not colon:
        return (int(local) if local.isdecimal() else number), number
    return (_number(local) if local else 0), number


def _remote(text: str, pod: Mapping[str, Any], service: Mapping[str, Any] | None) -> int:
    if service is not None:
        for port in service["spec"].get("ports") or ():
            if text in (str(port["port"]), port.get("name")):
                target = port.get("targetPort", port["port"])
                return target if isinstance(target, int) and target else _named(str(target or port["port"]), pod)
        raise CliError(f"Service {service['metadata']['name']} does not have a service port {text}")
    return int(text) if text.isdecimal() else _named(text, pod)


def _named(text: str, pod: Mapping[str, Any]) -> int:
    if text.isdecimal():
        return int(text)
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == text:
                return int(port["containerPort"])
    raise CliError(f"Pod '{pod['metadata']['name']}' does not have a named port '{text}'")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise CliError(f"error parsing local port '{text}'")
    return int(text)


def _hosts(text: str) -> list[str]:
    addresses = [address.strip() for address in text.split(",")]
    return [host for address in addresses for host in (("127.0.0.1", "::1") if address == "localhost" else (address,))]


async def _forward(session: Session, pod: Mapping[str, Any], ports: Ports, hosts: list[str]) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/portforward"
    socket = await open_socket(session, path, [], PROTOCOLS)
    async with SpdyConnection(Tunnel(socket), is_server=False) as connection, AsyncExitStack() as listening:
        forwarding = Forwarding(connection, lambda text: click.echo(f"E {text}", err=True))
        for local, remote in ports:
            await _listen(listening, forwarding, local, remote, hosts)
        await connection.closed.wait()
        raise CliError("lost connection to pod")


async def _listen(listening: AsyncExitStack, forwarding: Forwarding, local: int, remote: int, hosts: list[str]) -> None:
    join = partial(_join, forwarding, remote)
    for index, host in enumerate(hosts):
        try:
            server = await asyncio.start_server(join, host, local)
        except OSError as error:
            if index and host == "::1":  # the machine has no IPv6
                continue
            raise CliError(f"unable to listen on port {local}: {error.strerror or error}") from None
        await listening.enter_async_context(server)
        local = server.sockets[0].getsockname()[1]
        click.echo(f"Forwarding from {f'[{host}]' if ':' in host else host}:{local} -> {remote}")


async def _join(
    forwarding: Forwarding, remote: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    local = writer.get_extra_info("sockname")[1]
    click.echo(f"Handling connection for {local}")
    await forwarding.join(reader, writer, local, remote)
