"""A pod's sandbox: namespaces kept by files, and the few files that all its containers see."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from sampan.runtimes import kernel
from sampan.runtimes.config import Mount, SandboxConfig
from sampan.runtimes.contract import RuntimeFailure

_UNSHARE = {"network": "--net", "ipc": "--ipc", "uts": "--uts"}
_SCRIPT = (
    'h="$1"; shift; [ -z "$h" ] || echo "$h" > /proc/sys/kernel/hostname; for s; do echo "${s#*=}" > "${s%%=*}"; done'
)
_SANDBOX_FAILED = "FailedCreatePodSandBox"


async def make_namespaces(config: SandboxConfig, folder: Path) -> dict[str, str]:
    """Network, ipc and host name, as far as they are not the node's; by the runtime specification's names."""
    spaces = folder / "ns"
    spaces.mkdir(parents=True, exist_ok=True)
    wanted = _wanted(config)
    for kind in wanted:
        (spaces / kind).touch(mode=0o600)
    if wanted:
        flags = [f"{_UNSHARE[kind]}={spaces / kind}" for kind in wanted]
        hostname = config.hostname if "uts" in wanted else ""
        await _run("unshare", *flags, "sh", "-c", _SCRIPT, "sh", hostname, *_sysctls(config.sysctls))
    if "network" in wanted:
        await asyncio.to_thread(kernel.in_network, spaces / "network", kernel.loopback_up)
    return {kind: str(spaces / kind) for kind in wanted}


def _wanted(config: SandboxConfig) -> list[str]:
    found = []
    if config.namespaces.network != "node":
        found += ["network", "uts"]
    if config.namespaces.ipc != "node":
        found.append("ipc")
    return found


def _sysctls(values: Mapping[str, str]) -> list[str]:
    return [f"/proc/sys/{name.replace('/', '.').replace('.', '/')}={value}" for name, value in values.items()]


async def _run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    if process.returncode:
        raise RuntimeFailure(_SANDBOX_FAILED, f"{argv[0]}: {err.decode('utf-8', 'replace').strip()}")


def make_files(config: SandboxConfig, folder: Path, resolv_conf: str) -> list[Mount]:
    """resolv.conf, the host's name, and shared memory."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "resolv.conf").write_text(resolv_conf)
    (files / "hostname").write_text(f"{config.hostname or os.uname().nodename}\n")
    found = [Mount(source=files / name, target=f"/etc/{name}") for name in ("resolv.conf", "hostname")]
    return [*found, Mount(source=_shared_memory(config, files), target="/dev/shm")]


def _shared_memory(config: SandboxConfig, files: Path) -> Path:
    if config.namespaces.ipc == "node":
        return Path("/dev/shm")
    path = files / "shm"
    path.mkdir(exist_ok=True)
    if not os.path.ismount(path):
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("shm", path, "tmpfs", flags, f"mode=1777,size={config.shm_bytes}")
    return path


__all__ = ["make_files", "make_namespaces"]
