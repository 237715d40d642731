"""Choose the runtime that runs pods on this machine: the requested one, or the first usable one in `ORDER`.

`look` detects which runtimes are usable; `choose` decides and records the reason. Sampan's own OCI runtime is preferred
to container engines, whose images and containers belong to other users of the machine. Plain processes, which isolate
nothing, are used only on request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.runtimes.names import AUTO, CRI, DOCKER, OCI, PROCESS

ORDER = (OCI, CRI, DOCKER)
CRI_SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock")
DOCKER_SOCKETS = ("/var/run/docker.sock",)
_PATIENCE_S = 2.0

_Ask = Callable[[str], Awaitable[str]]
"""A coroutine function that connects to a socket and returns a description of the engine that responds."""


class NoRuntime(Exception):
    """The requested runtime is not usable; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The runtimes of this machine: the location of each usable one, and the reason why each other one is not
    usable."""

    usable: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The path of the socket or program, and a description of the engine, by runtime name."""
    faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    runtime: str
    place: str = ""
    """The socket for cri and docker, the program for oci."""
    why: str = ""
    """A message for the administrator: the chosen runtime, and why the runtimes preferred to it are not used."""


def choose(found: Found, wanted: str = AUTO) -> Choice:
    """Return the requested runtime, or the first usable one. Raise NoRuntime if there is none."""
    if wanted != AUTO:
        if wanted not in found.usable:
            raise NoRuntime(f"{wanted}: {found.faults.get(wanted, 'there is no such runtime')}")
        endpoint, what = found.usable[wanted]
        return Choice(runtime=wanted, place=endpoint, why=f"{wanted}: {what}")
    name = next((candidate for candidate in ORDER if candidate in found.usable), None)
    if name is None:
        raise NoRuntime(_told(found, ORDER))
    endpoint, what = found.usable[name]
    others = _told(found, ORDER[: ORDER.index(name)])
    return Choice(runtime=name, place=endpoint, why=f"{name}: {what}{f' ({others})' if others else ''}")


def _told(found: Found, names: Sequence[str]) -> str:
    return "; ".join(f"not {name}: {found.faults[name]}" for name in names if name in found.faults)


async def look(
    wanted: str = AUTO,
    *,
    order: Sequence[str] = ORDER,
    cri_sockets: Sequence[str] = CRI_SOCKETS,
    docker_sockets: Sequence[str] = DOCKER_SOCKETS,
) -> Found:
    """Probe runtimes in order and stop at the first usable one."""
    usable: dict[str, tuple[str, str]] = {}
    faults: dict[str, str] = {}
    looks: dict[str, Callable[[], Awaitable[tuple[str, str]]]] = {
        CRI: lambda: _first(_cri, cri_sockets, "no socket of containerd or CRI-O"),
        DOCKER: lambda: _first(_docker, docker_sockets, "no socket of the Docker Engine"),
        OCI: _oci,
        PROCESS: _process,
    }
    for name in order if wanted == AUTO else (wanted,):
        if name not in looks:
            continue
        endpoint, what = await looks[name]()
        if endpoint:
            usable[name] = (endpoint, what)
            break
        faults[name] = what
    return Found(usable=usable, faults=faults)


async def chosen(wanted: str = AUTO, endpoint: str = "") -> Choice:
    """Choose a runtime. If `endpoint` is set, it is the socket of a CRI runtime or of the Docker Engine."""
    if not endpoint:
        return choose(await look(wanted), wanted)
    if wanted not in (AUTO, CRI, DOCKER):
        raise NoRuntime(f"{wanted} has no endpoint: only {CRI} and {DOCKER} have")
    if not Path(endpoint.removeprefix("unix://")).exists():  # noqa: ASYNC240 - a single stat call
        raise NoRuntime(f"there is no {endpoint}")
    return choose(await look(wanted, order=(CRI, DOCKER), cri_sockets=[endpoint], docker_sockets=[endpoint]), wanted)


async def _first(ask: _Ask, sockets: Sequence[str], otherwise: str) -> tuple[str, str]:
    """Return the first socket that responds and a description of its engine, or an empty path and the reason."""
    faults = []
    for path in sockets:
        socket = path.removeprefix("unix://")
        if not Path(socket).exists():  # noqa: ASYNC240 - a single stat call
            continue
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return path, await ask(socket)
        except TimeoutError:
            faults.append(f"{path} does not answer")
        except Exception as error:
            faults.append(f"{path}: {error}")
    return "", "; ".join(faults) or otherwise


async def _cri(path: str) -> str:
    from sampan.runtimes.cri.client import CriClient, CriError

    client = CriClient(path)
    try:
        about = await client.runtime("Version", timeout_s=_PATIENCE_S)
        return f"{about.runtime_name} {about.runtime_version} at {path}"
    except CriError as error:
        if error.is_unknown:
            raise NoRuntime('it does not speak CRI (disabled_plugins = ["cri"] in its config.toml?)') from None
        raise
    finally:
        await client.close()


async def _docker(path: str) -> str:
    from sampan.runtimes.docker.client import DockerClient

    client = DockerClient(path)
    try:
        return f"Docker {(await client.get('/version'))['Version']} at {path}"
    finally:
        await client.close()


async def _oci() -> tuple[str, str]:
    from sampan.runtimes.oci.binary import find_binary

    binary = find_binary()
    if os.geteuid() != 0:
        return "", "containers need root"
    return (binary, binary) if binary is not None else ("", "there is neither crun nor runc")


async def _process() -> tuple[str, str]:
    return "/proc", "plain processes of this machine, which isolates nothing"


__all__ = ["AUTO", "CRI", "DOCKER", "OCI", "ORDER", "PROCESS", "Choice", "Found", "NoRuntime", "choose", "chosen"]
__all__ += ["look"]
