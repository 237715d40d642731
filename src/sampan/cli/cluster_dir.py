"""A cluster's folder: its store, keys, kubeconfig, log and the note of the process that runs it."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sampan.cli.failures import CliError
from sampan.machinery.private_files import write_private


class Running(msgspec.Struct, omit_defaults=True):
    """What a running cluster says about itself, in `running.json`."""

    pid: int
    name: str
    url: str = ""
    insecure_url: str = ""
    kubeconfig: str = ""
    components: list[str] = []
    started: float = 0
    nodes: str = ""
    """What runs the pods of real nodes, or why there are none."""


@dataclass(frozen=True, slots=True)
class ClusterDir:
    path: Path

    @property
    def database(self) -> Path:
        return self.path / "state.db"

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "admin.kubeconfig"

    @property
    def log(self) -> Path:
        return self.path / "sampan.log"

    @property
    def images(self) -> Path:
        return self.path / "images"

    @property
    def volumes(self) -> Path:
        """What claims of the cluster's own storage class keep."""
        return self.path / "volumes"

    @property
    def _note(self) -> Path:
        return self.path / "running.json"

    @property
    def is_one(self) -> bool:
        """Whether a cluster was ever started here."""
        return (self.path / "lock").exists() and self.pki.is_dir()

    def make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CliError(f"--data-dir: cannot make {self.path}: {error.strerror}") from None

    def lock(self) -> Lock:
        return Lock(self.path / "lock")

    def write_note(self, note: Running) -> None:
        write_private(self._note, msgspec.json.encode(note))

    def read_note(self) -> Running | None:
        """What runs here; None if nothing does."""
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=Running)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def remove_note(self) -> None:
        self._note.unlink(missing_ok=True)


class Lock:
    """Held by the process that runs the cluster; let go by the system when it ends in any way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """False if another process holds it."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def clusters_root() -> Path:
    """Where clusters live that were not given a folder."""
    base = os.environ.get("SAMPAN_HOME")
    if base:
        return Path(base)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(data) / "sampan"


def cluster_dir(data_dir: str | None, name: str) -> ClusterDir:
    return ClusterDir(Path(data_dir).absolute() if data_dir else clusters_root() / name)
