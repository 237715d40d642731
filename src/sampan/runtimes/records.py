"""What the runtime has, on disk: a folder for each pod, and in it one for each of its containers.

pods/UID/sandbox.json        the sandbox; ns/ has its namespaces, files/ what containers see of it
pods/UID/config.json         what it was made with
pods/UID/c/ID/record.json    a container; rootfs, upper, config.json, exit beside it
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sampan.runtimes import contract, trees
from sampan.runtimes.config import SandboxConfig


class SandboxRecord(msgspec.Struct):
    uid: str
    name: str
    namespace: str
    attempt: int
    created_at: float
    is_ready: bool = True
    host_network: bool = False
    ips: list[str] = []
    cgroup_parent: str = ""
    pause: str = ""
    """The id of the process that holds the processes' namespace, where they share one."""
    hostname: str = ""
    program: str = ""
    """The name of that which runs its containers."""
    made: int = 1
    """How many sandboxes the pod has had."""


class ContainerRecord(msgspec.Struct):
    id: str
    name: str
    attempt: int
    image: str
    image_ref: str
    created_at: float
    log_path: str
    pid: int = 0
    started_at: float = 0
    finished_at: float = 0
    exit_code: int = 0
    state: str = contract.CREATED
    reason: str = ""
    message: str = ""
    cgroup: str = ""
    has_tty: bool = False
    stop_signal: str = ""
    memory_bytes: int = 0
    image_digest: str = ""
    """Of the image whose layers it uses."""
    volume_digests: list[str] = msgspec.field(default_factory=list)
    """Of the images that it has as volumes."""
    user: contract.User | None = None


class Records:
    """Written whole or not at all; read once, when the runtime begins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pod(self, uid: str) -> Path:
        return self.folder / "pods" / uid

    def container(self, uid: str, id: str) -> Path:
        return self.pod(uid) / "c" / id

    def save_sandbox(self, record: SandboxRecord) -> None:
        _write(self.pod(record.uid) / "sandbox.json", msgspec.json.encode(record))

    def save_config(self, config: SandboxConfig) -> None:
        _write(self.pod(config.uid) / "config.json", msgspec.json.encode(config, enc_hook=str))

    def config(self, uid: str) -> SandboxConfig | None:
        """What the pod's sandbox was made with, if that can be read."""
        try:
            data = (self.pod(uid) / "config.json").read_bytes()
            return msgspec.json.decode(data, type=SandboxConfig, dec_hook=as_path)
        except (OSError, msgspec.MsgspecError):
            return None

    def save_container(self, uid: str, record: ContainerRecord) -> None:
        _write(self.container(uid, record.id) / "record.json", msgspec.json.encode(record))

    def sandboxes(self) -> Iterator[SandboxRecord]:
        """What cannot be read is a pod that was being made or removed: it is told with what is known, its uid."""
        folder = self.folder / "pods"
        for uid in sorted(os.listdir(folder)) if folder.exists() else ():
            try:
                yield msgspec.json.decode((folder / uid / "sandbox.json").read_bytes(), type=SandboxRecord)
            except (OSError, msgspec.MsgspecError):
                yield SandboxRecord(uid=uid, name="", namespace="", attempt=0, created_at=0, is_ready=False)

    def containers(self, uid: str) -> Iterator[ContainerRecord]:
        folder = self.pod(uid) / "c"
        for id in sorted(os.listdir(folder)) if folder.exists() else ():
            try:
                yield msgspec.json.decode((folder / id / "record.json").read_bytes(), type=ContainerRecord)
            except (OSError, msgspec.MsgspecError):
                yield ContainerRecord(
                    id=id, name="", attempt=0, image="", image_ref="", created_at=0, log_path="", state=contract.UNKNOWN
                )

    def remove(self, path: Path) -> None:
        """As far as that can be done."""
        with contextlib.suppress(OSError):
            trees.remove_tree(path)


def as_path(kind: type, value: Any) -> Any:
    """Of the fields only paths are none of the types that JSON has."""
    return kind(value)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    os.replace(scratch, path)


__all__ = ["ContainerRecord", "Records", "SandboxRecord", "as_path"]
