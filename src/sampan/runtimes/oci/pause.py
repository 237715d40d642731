"""The pause container of a pod with a shared PID namespace: its first process, which reaps orphaned processes.

All containers of the pod see it as process 1, and those with SYS_PTRACE see its files, environment and mounts. It is
therefore as confined as a container can be: its own root directory with a single program, no capabilities, and a user
without any files.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from sampan.host.linux.user_namespace import is_group_mapped
from sampan.runtimes import kernel
from sampan.runtimes.config import (
    MASKED_PATHS,
    READ_ONLY_PATHS,
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    SecurityProfile,
)
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.images import pause
from sampan.runtimes.oci.users import ContainerIdentity

DIRECTORY = "pause"
_PROGRAM = "pause"
_NOBODY = 65535
_OOM_SCORE = -998
_START_POLLS, _START_POLL_S = 5000, 0.002


def make_root(directory: Path) -> Path:
    """Return the root directory of a new pause container. It is a file system of its own, whose mounts name no path of
    the machine."""
    if not pause.is_built_in():
        raise RuntimeFailure("FailedCreatePodSandBox", "shareProcessNamespace needs a machine with x86-64 or arm64")
    root = directory / "rootfs"
    root.mkdir(parents=True, exist_ok=True)
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=256k,mode=755")
    program = root / _PROGRAM
    program.write_bytes(pause.program())
    program.chmod(0o555)
    return root


async def wait_until_running(pid: int) -> None:
    """Wait until the program runs: the OCI runtime starts it after its own command has ended."""
    for _ in range(_START_POLLS):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == _PROGRAM:  # noqa: ASYNC240  procfs does not block
                return
        await asyncio.sleep(_START_POLL_S)
    raise RuntimeFailure("FailedCreatePodSandBox", "the pause container did not start")


def pause_config(id: str, directory: Path) -> ContainerConfig:
    return ContainerConfig(
        name=id,
        image=pause.NAME,
        command=(f"/{_PROGRAM}",),
        log_path=directory / "log",
        security=ContainerSecurity(
            is_root_read_only=True,
            may_not_gain_privileges=True,
            dropped=("ALL",),
            seccomp=SecurityProfile(type="RuntimeDefault"),
            masked_paths=MASKED_PATHS,
            read_only_paths=READ_ONLY_PATHS,
        ),
        resources=ContainerResources(oom_score_adjust=kernel.clamp_oom_score(_OOM_SCORE)),
    )


def pause_identity() -> ContainerIdentity:
    """Return the user of the pause container: nobody, or root of a user namespace that has no such user."""
    number = _NOBODY if is_group_mapped(_NOBODY) else 0
    return ContainerIdentity(number, number, (number,))
