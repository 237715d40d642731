"""Records of sandboxes and containers on disk, with a directory for each pod and each of its containers.

pods/UID/sandbox.json        the sandbox, beside ns/ (its namespaces) and files/ (files that its containers share)
pods/UID/config.json         the configuration that the sandbox was created with
pods/UID/c/ID/record.json    a container, beside its rootfs, upper, config.json and exit
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sampan.host.durable_files import write_durably
from sampan.host.linux.directory_trees import remove_tree
from sampan.runtimes import contract
from sampan.runtimes.config import SandboxConfig
from sampan.runtimes.contract import RuntimeFailure


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
    """The monitor id of the process that holds the PID namespace, if the containers of the pod share one."""
    hostname: str = ""
    program: str = ""
    """The name of the OCI runtime program that runs the pod's containers."""
    sandbox_count: int = msgspec.field(default=1, name="made")
    """How many sandboxes the pod has had, including this one."""


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
    """The digest of the image whose layers the container uses."""
    volume_digests: list[str] = msgspec.field(default_factory=list)
    """The digests of the images that are mounted as volumes."""
    user: contract.ContainerUser | None = None


class PodRecords:
    """Reads and writes records. Writes are atomic. Records are read only when the runtime starts.

    Only the record of a container that has exited waits for the disk: its exit code and the number of its runs cannot
    be had again. No sandbox and no running container survives a power failure, and an unreadable record of one is that
    of an interrupted operation.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def pod(self, uid: str) -> Path:
        return self.directory / "pods" / uid

    def container(self, uid: str, id: str) -> Path:
        return self.pod(uid) / "c" / id

    def save_sandbox(self, record: SandboxRecord) -> None:
        _write(self.pod(record.uid) / "sandbox.json", msgspec.json.encode(record), is_synced=False)

    def save_config(self, config: SandboxConfig) -> None:
        content = msgspec.json.encode(config, enc_hook=str)
        _write(self.pod(config.uid) / "config.json", content, is_synced=False)

    def config(self, uid: str) -> SandboxConfig | None:
        """Return the configuration that the pod's sandbox was created with, or None if it cannot be read."""
        try:
            data = (self.pod(uid) / "config.json").read_bytes()
            return msgspec.json.decode(data, type=SandboxConfig, dec_hook=as_path)
        except (OSError, msgspec.MsgspecError):
            return None

    def save_container(self, uid: str, record: ContainerRecord) -> None:
        path = self.container(uid, record.id) / "record.json"
        _write(path, msgspec.json.encode(record), is_synced=record.state == contract.EXITED)

    def sandboxes(self) -> Iterator[SandboxRecord]:
        """Yield the records of all sandboxes. A record that cannot be read belongs to a pod whose creation or removal
        was interrupted; a record with only the uid is yielded instead."""
        directory = self.directory / "pods"
        for uid in sorted(os.listdir(directory)) if directory.exists() else ():
            try:
                yield msgspec.json.decode((directory / uid / "sandbox.json").read_bytes(), type=SandboxRecord)
            except (OSError, msgspec.MsgspecError):
                yield SandboxRecord(uid=uid, name="", namespace="", attempt=0, created_at=0, is_ready=False)

    def containers(self, uid: str) -> Iterator[ContainerRecord]:
        directory = self.pod(uid) / "c"
        for id in sorted(os.listdir(directory)) if directory.exists() else ():
            try:
                yield msgspec.json.decode((directory / id / "record.json").read_bytes(), type=ContainerRecord)
            except (OSError, msgspec.MsgspecError):
                yield ContainerRecord(
                    id=id, name="", attempt=0, image="", image_ref="", created_at=0, log_path="", state=contract.UNKNOWN
                )

    def remove(self, path: Path) -> None:
        """Remove a directory tree, ignoring errors."""
        with contextlib.suppress(OSError):
            remove_tree(path)


def as_path(kind: type, value: Any) -> Any:
    """Convert a decoded string to the field's type. Path is the only field type that has no JSON counterpart."""
    return kind(value)


def _write(path: Path, content: bytes, *, is_synced: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
    write_durably(path, content, mode=0o600, is_synced=is_synced)


class SandboxConfigs:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, SandboxConfig] = {}

    def keep(self, config: SandboxConfig) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # No sandbox survives a power failure, so the write need not wait for the disk.
        content = msgspec.json.encode(config, enc_hook=str)
        write_durably(self._path(config.uid), content, mode=0o600, is_synced=False)
        self._known[config.uid] = config

    def get(self, uid: str) -> SandboxConfig:
        config = self._known.get(uid)
        if config is None:
            try:
                config = msgspec.json.decode(self._path(uid).read_bytes(), type=SandboxConfig, dec_hook=as_path)
            except (OSError, msgspec.MsgspecError):
                raise RuntimeFailure("CreateContainerError", "the pod has no recorded sandbox") from None
            self._known[uid] = config
        return config

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)
        self._path(uid).unlink(missing_ok=True)

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"
