"""The sandbox of a pod: namespaces pinned by bind mounts, and the files that all of its containers share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from sampan.host.linux import programs
from sampan.host.linux.network_namespace import bring_up_loopback, run_in_network
from sampan.runtimes import kernel
from sampan.runtimes.config import Mount, SandboxConfig
from sampan.runtimes.contract import RuntimeFailure

_UNSHARE = {"network": "--net", "ipc": "--ipc", "uts": "--uts"}
_SCRIPT = (
    'h="$1"; shift; [ -z "$h" ] || echo "$h" > /proc/sys/kernel/hostname; for s; do echo "${s#*=}" > "${s%%=*}"; done'
)
_SANDBOX_FAILED = "FailedCreatePodSandBox"


async def make_namespaces(config: SandboxConfig, directory: Path) -> dict[str, str]:
    """Create the network, IPC and UTS namespaces that the pod does not share with the node, and return their paths by
    the names of the OCI runtime specification."""
    spaces = directory / "ns"
    spaces.mkdir(parents=True, exist_ok=True)
    kinds = _namespaces_to_create(config)
    for kind in kinds:
        (spaces / kind).touch(mode=0o600)
    if kinds:
        flags = [f"{_UNSHARE[kind]}={spaces / kind}" for kind in kinds]
        hostname = config.hostname if "uts" in kinds else ""
        await _run("unshare", *flags, "sh", "-c", _SCRIPT, "sh", hostname, *_sysctls(config.sysctls))
    if "network" in kinds:
        await asyncio.to_thread(run_in_network, spaces / "network", bring_up_loopback)
    return {kind: str(spaces / kind) for kind in kinds}


def _namespaces_to_create(config: SandboxConfig) -> list[str]:
    kinds = []
    if config.namespaces.network != "node":
        kinds += ["network", "uts"]
    elif config.hostname:
        kinds.append("uts")
    if config.namespaces.ipc != "node":
        kinds.append("ipc")
    return kinds


def _sysctls(values: Mapping[str, str]) -> list[str]:
    return [f"/proc/sys/{name.replace('/', '.').replace('.', '/')}={value}" for name, value in values.items()]


async def _run(*argv: str) -> None:
    result = await programs.run(*argv)
    if result.code:
        raise RuntimeFailure(_SANDBOX_FAILED, f"{argv[0]}: {result.errors.strip()}")


def make_files(config: SandboxConfig, directory: Path, resolv_conf: str) -> list[Mount]:
    """Create resolv.conf, hostname and /dev/shm, and return their mounts. Containers can write to /dev/shm only, as no
    limit of a container applies to files of the node."""
    files = directory / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "resolv.conf").write_text(resolv_conf)
    (files / "hostname").write_text(f"{config.hostname or os.uname().nodename}\n")
    mounts = [
        Mount(source=files / name, target=f"/etc/{name}", is_read_only=True) for name in ("resolv.conf", "hostname")
    ]
    return [*mounts, Mount(source=_mount_shared_memory(config, files), target="/dev/shm")]


def _mount_shared_memory(config: SandboxConfig, files: Path) -> Path:
    if config.namespaces.ipc == "node":
        return Path("/dev/shm")
    path = files / "shm"
    path.mkdir(exist_ok=True)
    if not os.path.ismount(path):
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("shm", path, "tmpfs", flags, f"mode=1777,size={config.shm_bytes}")
    return path


def find_pinned_namespaces(directory: Path) -> dict[str, str]:
    """Return the namespaces that are pinned in the directory."""
    names = os.listdir(directory) if directory.exists() else []
    return {name: str(directory / name) for name in names if os.path.ismount(directory / name)}


def pin_pid_namespace(pid: int, directory: Path) -> str:
    """Pin the PID namespace of a pause process, and return its path. A path below /proc would lead to the namespace of
    another process once the pause process has exited and its pid is used again.

    Earlier versions of Sampan recorded the parent of the first process of the namespace, whose children are in it.
    """
    file = directory / "ns" / "pid"
    file.touch(mode=0o600)
    kernel.mount(f"/proc/{pid}/ns/pid_for_children", file, flags=kernel.MS_BIND)
    return str(file)
