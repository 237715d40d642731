"""The sandbox of a pod: namespaces pinned by bind mounts, and the files that all of its containers share."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from sampan.machinery.linux import programs
from sampan.machinery.linux.network_namespace import bring_up_loopback, run_in_network
from sampan.runtimes import kernel
from sampan.runtimes.config import Mount, SandboxConfig
from sampan.runtimes.contract import RuntimeFailure

_UNSHARE = {"network": "--net", "ipc": "--ipc", "uts": "--uts"}
_SCRIPT = (
    'h="$1"; shift; [ -z "$h" ] || echo "$h" > /proc/sys/kernel/hostname; for s; do echo "${s#*=}" > "${s%%=*}"; done'
)
_SANDBOX_FAILED = "FailedCreatePodSandBox"
PAUSE = (
    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c"),
    "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done",
)
"""The command of the pause process: PID 1 of a shared PID namespace, which reaps orphaned processes."""


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
    """Create resolv.conf, hostname and /dev/shm, and return their mounts."""
    files = directory / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "resolv.conf").write_text(resolv_conf)
    (files / "hostname").write_text(f"{config.hostname or os.uname().nodename}\n")
    mounts = [Mount(source=files / name, target=f"/etc/{name}") for name in ("resolv.conf", "hostname")]
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


async def find_pid_namespace(pid: int) -> str:
    """Return the path of the PID namespace whose PID 1 is the only child of process `pid`, as seen from the node. Wait
    until the child exists."""
    for _ in range(500):
        with contextlib.suppress(OSError, ValueError, IndexError):
            return f"/proc/{_children(pid)[0]}/ns/pid"
        await asyncio.sleep(0.002)
    raise RuntimeFailure(_SANDBOX_FAILED, "the first process of the pod sandbox did not start")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
