"""The data directory of a cluster: its store, keys, kubeconfig, log, and a file about the running process."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from sampan.cli.local_cluster.cluster_registry import (
    clusters_root,
    list_registered_clusters,
    list_roots,
    registered_name,
)
from sampan.cli.local_cluster.sudo_user import hand_over
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.private_files import write_private

DEFAULT_NAME = "sampan"
NAME_LENGTH = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME_RULE = (
    f"must be a DNS label: at most {NAME_LENGTH} lower-case letters, digits and hyphens, with no hyphen at its ends"
)

_CLUSTER_ENTRIES = frozenset(
    {
        "admin.kubeconfig",
        "dashboard-sessions.json",
        "flags.json",
        "images",
        "join.json",
        "lock",
        "nodes",
        "pki",
        "running.json",
        "sampan.log",
        "state.db",
        "state.db-journal",
        "state.db-shm",
        "state.db-wal",
        "state.db.lock",
        "state.db.reserve",
        "version.json",
        "volumes",
    }
)
"""All entries that a cluster creates in its data directory. No other entry is ever removed."""
_FILE_SYSTEM_ENTRIES = frozenset({"lost+found"})
"""Entries that an empty file system has in its root directory. They do not prevent its use as a data directory."""


class RunningCluster(msgspec.Struct, omit_defaults=True):
    """The content of `running.json`, which describes a running cluster."""

    pid: int
    name: str
    url: str = ""
    insecure_url: str = ""
    listening: list[str] = []
    """The addresses and ports on which the cluster listens."""
    kubeconfig: str = ""
    components: list[str] = []
    started: float = 0
    nodes: str = ""
    """The runtime of the real nodes, or why there are none."""
    runtime_reason: str = ""
    """Why the runtime of the real nodes was chosen, or why there are none."""
    join_address: str = ""
    """The address and port at which other machines reach the API server; empty if they cannot."""
    dns: str = ""
    """The addresses of the DNS server and where it forwards other queries to; empty if there is none."""
    pod_cidrs: list[str] = []
    service_cidrs: list[str] = []
    store: str = ""
    """Where the objects are: sqlite, memory, or etcd and its addresses."""
    version: str = ""
    """The version of Sampan."""
    kubernetes_version: str = ""
    """The version of Kubernetes as which the cluster behaves."""
    recalled_flags: str = ""
    """The flags of an earlier start that this start has taken over, as on a command line."""
    pods_warning: str = ""
    """Why the pods of real nodes cannot reach the API server; empty if they can."""
    merged_kubeconfig: str = ""
    """The kubeconfig of the user that has the cluster as a context; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ClusterDir:
    path: Path

    @property
    def name(self) -> str:
        """The name under which the cluster was last started."""
        return registered_name(self.path) or self.path.name

    @property
    def is_running(self) -> bool:
        return not self.is_unreadable and self.read_note_if_running() is not None

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
    def flags(self) -> Path:
        """The file with the flags that the next start takes over."""
        return self.path / "flags.json"

    @property
    def version_file(self) -> Path:
        """The file about the version that last started the cluster."""
        return self.path / "version.json"

    @property
    def log(self) -> Path:
        return self.path / "sampan.log"

    @property
    def images(self) -> Path:
        return self.path / "images"

    @property
    def volumes(self) -> Path:
        """The directory with the volumes of the default storage class."""
        return self.path / "volumes"

    @property
    def dashboard_sessions(self) -> Path:
        """The file with the sessions of people who are logged in to the dashboard."""
        return self.path / "dashboard-sessions.json"

    @property
    def _note(self) -> Path:
        return self.path / "running.json"

    @property
    def is_cluster(self) -> bool:
        """Whether a cluster was ever started in this directory."""
        return os.path.isfile(self.path / "lock") and os.path.isdir(self.pki)

    @property
    def join_record(self) -> Path:
        """The file about the cluster that the node in this directory has joined."""
        return self.path / "join.json"

    @property
    def is_joined(self) -> bool:
        """Whether this is the data directory of a node that joined the cluster of another machine."""
        return os.path.isfile(self.join_record)

    @property
    def is_unreadable(self) -> bool:
        return not os.access(self.path, os.R_OK | os.X_OK)

    def check(self) -> None:
        """Raise CliError for a directory that must not become a data directory, so that `sampan down --delete` never
        removes anything but files of a cluster."""
        root, own = os.path.realpath(clusters_root()), os.path.realpath(self.path)
        if Path(root).is_relative_to(own):
            raise CliError(f"--data-dir: {self.path} holds the directories of clusters; choose another, or use --name")
        try:
            if not self.path.exists():
                return
            if not self.path.is_dir():
                raise CliError(f"--data-dir: {self.path} is not a directory")
            if others := [child.name for child in self.path.iterdir() if ClusterDir(child).is_cluster]:
                raise CliError(f"--data-dir: {self.path} holds another cluster, {min(others)!r}")
            if not self.is_cluster and (foreign := self._list_foreign_names()):
                raise CliError(
                    f"--data-dir: {self.path} is neither empty nor a cluster's directory: it has {min(foreign)!r}"
                )
        except OSError as error:
            raise CliError(f"--data-dir: cannot read {self.path}: {error.strerror}") from None

    def make(self) -> Callable[[], None]:
        """Create the directory if it is missing, and return a function that removes what was created.

        The caller calls that function if the cluster fails to start, so that a failed start leaves nothing behind.
        """
        missing = [path for path in (self.path, *self.path.parents) if not os.path.exists(path)]
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            _remove_empty(missing)
            raise CliError(f"--data-dir: cannot create {self.path}: {error.strerror}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            _remove_empty(missing)
            is_read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
            reason = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
            raise CliError(f"--data-dir: cannot write to {self.path}: {reason}")
        hand_over(missing)
        with suppress(FileNotFoundError):
            self.volumes.chmod(0o700)  # volumes are open to every user that containers run as

        def undo() -> None:
            with suppress(OSError):
                if self.path in missing:
                    self._remove_own()
                _remove_empty(missing)

        return undo

    def hand_over(self) -> None:
        """Let the user who called sudo read the kubeconfig, see the state of the cluster, and start it again. Keys and
        the data of nodes stay with root."""
        hand_over((self._note, self.kubeconfig, self.flags, self.log, self.version_file, self.path / "lock"))

    def remove(self) -> list[str]:
        """Remove the files of the cluster, and the directory if it is empty afterwards. Return the names of remaining
        entries."""
        try:
            if not self.is_cluster:
                raise CliError(f"--data-dir: {self.path} is not the data directory of a cluster; nothing is removed")
            self._remove_own()
            _remove_empty([self.path])
            return sorted(child.name for child in self.path.iterdir()) if self.path.exists() else []
        except OSError as error:
            raise CliError(f"--data-dir: cannot remove {error.filename or self.path}: {error.strerror}") from None

    def replace_data(self, scratch: Path) -> None:
        """Replace the data of a stopped cluster with the entries of a directory below it. Its lock, which the caller
        holds, stays. The old data are removed after the new ones are in place."""
        if mounted := self._find_mount():
            raise CliError(f"--data-dir: {mounted}: a pod's volume is still mounted there")
        old = Path(tempfile.mkdtemp(dir=self.path, prefix=".state.db."))
        for child in list(self.path.iterdir()):
            if child.name in _CLUSTER_ENTRIES - {"lock"}:
                child.rename(old / child.name)
        for child in list(scratch.iterdir()):
            child.rename(self.path / child.name)
        shutil.rmtree(old)

    def _list_foreign_names(self) -> list[str]:
        names = {child.name for child in self.path.iterdir()}
        return [name for name in names - _CLUSTER_ENTRIES - _FILE_SYSTEM_ENTRIES if not _is_scratch(name)]

    def _remove_own(self) -> None:
        """Remove the files of the cluster, the lock last: if the removal is interrupted, the directory is still
        recognized as that of a cluster."""
        if mounted := self._find_mount():
            raise OSError(errno.EBUSY, "a pod's volume is still mounted there", mounted)
        names = [
            child.name for child in self.path.iterdir() if child.name in _CLUSTER_ENTRIES or _is_scratch(child.name)
        ]
        for name in sorted(names, key=lambda name: (name in ("pki", "lock"), name == "lock")):
            _remove_path(self.path / name)

    def _find_mount(self) -> str:
        """Return a mount point below the directory, or an empty string. A mounted file system must not be removed with
        the directory."""
        if sys.platform != "linux" or not os.path.isdir(self.path / "nodes"):
            return ""
        from sampan.runtimes import kernel

        path = Path(os.path.realpath(self.path))
        return next((str(mount) for mount in kernel.mounts_below(path) if mount != path), "")

    def lock(self) -> ClusterLock:
        return ClusterLock(self.path / "lock")

    def write_note(self, note: RunningCluster) -> None:
        write_private(self._note, msgspec.json.encode(note))

    def read_note(self) -> RunningCluster | None:
        """Return the description of the running cluster, or None if there is none."""
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=RunningCluster)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        except OSError as error:
            raise CliError(f"--data-dir: cannot read {self._note}: {error.strerror}") from None

    def read_note_if_running(self) -> RunningCluster | None:
        """Return the description of the running cluster, or None if it is not running, even if an old description is
        left."""
        lock = self.lock()
        if lock.acquire():
            lock.release()
            return None
        return self.read_note()

    def remove_note(self) -> None:
        self._note.unlink(missing_ok=True)


class ClusterLock:
    """A lock held by the process that runs the cluster. The kernel releases it when the process exits for any
    reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self, *, makes_file: bool = False) -> bool:
        """Acquire the lock. Return False if another process holds it. Only the start of a cluster creates the lock
        file; if it does not exist, the lock is free, and a directory of another kind is left unchanged."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if makes_file else 0)
        try:
            file = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise CliError(f"--data-dir: cannot open {self._path}: {error.strerror}") from None
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


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that name a cluster to a command."""
    name = click.option(
        "--name", envvar="SAMPAN_NAME", default=DEFAULT_NAME, show_default=True, help="Name of the cluster."
    )
    return _data_dir_option(name(command))


def running_cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that select a cluster which exists to a command, for `select_cluster`."""
    name = click.option(
        "--name",
        "cluster",
        envvar="SAMPAN_NAME",
        help=f"Name of the cluster. Default: {DEFAULT_NAME}, or the only one that is running.",
    )
    return _data_dir_option(name(command))


def _data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir",
        envvar="SAMPAN_DATA_DIR",
        metavar="DIR",
        help="Data directory of the cluster. Default: SAMPAN_HOME/NAME.",
    )(command)


def select_cluster(data_dir: str | None, name: str | None) -> ClusterDir:
    """Return the cluster that the flags select. Without flags it is the one named sampan if it exists, or else the only
    one that is running."""
    directory = find_cluster(data_dir, DEFAULT_NAME if name is None else name)
    if data_dir is not None or name is not None or directory.is_cluster:
        return directory
    running = [cluster for cluster in list_clusters() if cluster.is_running]
    if len(running) > 1:
        names = ", ".join(cluster.name for cluster in running)
        raise CliError(f"--name: several clusters are running: {names}; choose one")
    return running[0] if running else directory


def cluster_dir(data_dir: str | None, name: str) -> ClusterDir:
    """Return the data directory that the flags select for a start: --data-dir, the directory in which the cluster of
    that name was started before, or the default one. The default name always stands for the default directory, since a
    cluster without a name and with --data-dir has it too. Raise CliError for invalid values."""
    if data_dir is None and name == DEFAULT_NAME:
        return ClusterDir(clusters_root() / name)
    return find_cluster(data_dir, name)


def find_cluster(data_dir: str | None, name: str) -> ClusterDir:
    """Return the cluster with that data directory or name. Of several with the same name, it is the only one that is
    running, or else the one in the default directory. If there is none, return the default directory. Raise CliError
    for invalid values, and for a name that several clusters have."""
    check_name(name)
    if data_dir is None:
        return _choose_cluster(name, list_clusters_of_name(name)) or ClusterDir(clusters_root() / name)
    if not data_dir:
        raise CliError("--data-dir: must not be empty")
    path = Path(data_dir).absolute()
    return ClusterDir(Path(os.path.realpath(path)) if ".." in path.parts else path)


def list_clusters_of_name(name: str) -> list[ClusterDir]:
    """Return the clusters with that name: the one in the default directory, and those started with --data-dir."""
    paths = [clusters_root() / name]
    paths += [Path(entry.data_dir) for entry in list_registered_clusters() if entry.name == name]
    return [directory for directory in map(ClusterDir, dict.fromkeys(paths)) if directory.is_cluster]


def _choose_cluster(name: str, clusters: list[ClusterDir]) -> ClusterDir | None:
    running = [directory for directory in clusters if directory.is_running] if len(clusters) > 1 else []
    default = [directory for directory in clusters if directory.path == clusters_root() / name]
    for choice in (clusters, running, default):
        if len(choice) == 1:
            return choice[0]
    if not clusters:
        return None
    directories = ", ".join(str(directory.path) for directory in clusters)
    raise CliError(f"--name: several clusters have the name {name}, in {directories}; choose one with --data-dir")


def check_name(name: str) -> None:
    """Raise CliError unless the name is a DNS label (RFC 1123): it names a directory and a kubeconfig context, and
    appears in commands."""
    if len(name) > NAME_LENGTH or not _NAME.fullmatch(name):
        raise CliError(f"--name: {name!r} {_NAME_RULE}")


def list_clusters() -> Iterator[ClusterDir]:
    """Yield the clusters below the default directory, sorted by name, and then those that were started with
    --data-dir."""
    known_paths = set()
    for root in list_roots():
        try:
            paths = sorted(root.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CliError(f"cannot read {root}: {error.strerror}; SAMPAN_HOME names another directory") from None
        for path in paths:
            directory = ClusterDir(path)
            if os.path.isdir(path) and (directory.is_cluster or directory.is_unreadable):
                known_paths.add(path)
                yield directory
    for entry in list_registered_clusters():
        directory = ClusterDir(Path(entry.data_dir))
        if directory.path not in known_paths and directory.is_cluster:
            known_paths.add(directory.path)
            yield directory


def _is_scratch(name: str) -> bool:
    """Whether a file name is that of a temporary file, which a process left when it was killed while writing a file of
    the cluster."""
    return any(name.startswith(f".{own}.") for own in _CLUSTER_ENTRIES)


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(paths: list[Path]) -> None:
    """Remove directories in order, stopping at the first one that is not empty."""
    for path in paths:
        try:
            path.rmdir()
        except OSError:
            return
