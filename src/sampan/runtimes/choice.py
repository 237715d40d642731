"""Choose the runtime that runs pods on this machine: the requested one, or the first usable one in `ORDER`.

`detect` detects which runtimes are usable; `choose` decides and records the reason. Sampan's own OCI runtime is
preferred to container engines, whose images and containers belong to other users of the machine. Plain processes, which
isolate nothing, are used only on request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.machinery.extras import require
from sampan.runtimes.names import AUTO, CRI, DOCKER, OCI, PROCESS

ORDER = (OCI, CRI, DOCKER)
CRI_SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock")
DOCKER_SOCKETS = ("/var/run/docker.sock",)
_TIMEOUT_S = 2.0

_Describe = Callable[[str], Awaitable[str]]
"""A coroutine function that connects to a socket and returns a description of the engine that responds."""


class NoRuntime(Exception):
    """The requested runtime is not usable; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedRuntimes:
    """The runtimes of this machine: the location of each usable runtime, and the reason why each other one is not
    usable."""

    usable: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The path of the socket or program, and a description of the engine, by runtime name."""
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeChoice:
    runtime: str
    endpoint: str = ""
    """The socket for cri and docker, the program for oci."""
    why: str = ""
    """A message for the administrator: the chosen runtime, and why the runtimes preferred to it are not used."""


def choose(detected: DetectedRuntimes, requested: str = AUTO) -> RuntimeChoice:
    """Return the requested runtime, or the first usable one. Raise NoRuntime if there is none."""
    if requested != AUTO:
        if requested not in detected.usable:
            raise NoRuntime(f"{requested}: {detected.errors.get(requested, 'there is no such runtime')}")
        endpoint, description = detected.usable[requested]
        return RuntimeChoice(runtime=requested, endpoint=endpoint, why=f"{requested}: {description}")
    name = next((candidate for candidate in ORDER if candidate in detected.usable), None)
    if name is None:
        raise NoRuntime(_explain_unusable(detected, ORDER))
    endpoint, description = detected.usable[name]
    others = _explain_unusable(detected, ORDER[: ORDER.index(name)])
    return RuntimeChoice(
        runtime=name, endpoint=endpoint, why=f"{name}: {description}{f' ({others})' if others else ''}"
    )


def _explain_unusable(detected: DetectedRuntimes, names: Sequence[str]) -> str:
    return "; ".join(f"not {name}: {detected.errors[name]}" for name in names if name in detected.errors)


async def detect(
    requested: str = AUTO,
    *,
    order: Sequence[str] = ORDER,
    cri_sockets: Sequence[str] = CRI_SOCKETS,
    docker_sockets: Sequence[str] = DOCKER_SOCKETS,
) -> DetectedRuntimes:
    """Probe runtimes in order and stop at the first usable one."""
    usable: dict[str, tuple[str, str]] = {}
    errors: dict[str, str] = {}
    probes: dict[str, Callable[[], Awaitable[tuple[str, str]]]] = {
        CRI: lambda: _find_socket(_cri, cri_sockets, "no socket of containerd or CRI-O"),
        DOCKER: lambda: _find_socket(_docker, docker_sockets, "no socket of the Docker Engine"),
        OCI: _oci,
        PROCESS: _process,
    }
    for name in order if requested == AUTO else (requested,):
        if name not in probes:
            continue
        endpoint, description = await probes[name]()
        if endpoint:
            usable[name] = (endpoint, description)
            break
        errors[name] = description
    return DetectedRuntimes(usable=usable, errors=errors)


async def choose_runtime(requested: str = AUTO, endpoint: str = "") -> RuntimeChoice:
    """Choose a runtime. If `endpoint` is set, it is the socket of a CRI runtime or of the Docker Engine."""
    if not endpoint:
        return choose(await detect(requested), requested)
    if requested not in (AUTO, CRI, DOCKER):
        raise NoRuntime(f"runtime {requested} has no endpoint; only {CRI} and {DOCKER} have one")
    if not Path(endpoint.removeprefix("unix://")).exists():  # noqa: ASYNC240 - a single stat call
        raise NoRuntime(f"there is no {endpoint}")
    return choose(
        await detect(requested, order=(CRI, DOCKER), cri_sockets=[endpoint], docker_sockets=[endpoint]), requested
    )


async def _find_socket(describe: _Describe, sockets: Sequence[str], otherwise: str) -> tuple[str, str]:
    """Return the first socket that responds and a description of its engine. If none responds, return an empty path and
    the reason."""
    errors = []
    for path in sockets:
        socket = path.removeprefix("unix://")
        if not os.path.exists(socket):  # noqa: ASYNC240 - a single stat call; False without access to the directory
            continue
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return path, await describe(socket)
        except TimeoutError:
            errors.append(f"{path} does not respond")
        except Exception as error:
            errors.append(f"{path}: {error}")
    return "", "; ".join(errors) or otherwise


async def _cri(path: str) -> str:
    require("grpc")
    from sampan.runtimes.cri.client import CriClient, CriError

    client = CriClient(path)
    try:
        version = await client.runtime("Version", timeout_s=_TIMEOUT_S)
        return f"{version.runtime_name} {version.runtime_version} at {path}"
    except CriError as error:
        if error.is_unknown:
            raise NoRuntime('it does not serve CRI (disabled_plugins = ["cri"] in its config.toml?)') from None
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
    return "/proc", "runs containers as plain processes of this machine, without isolation"
