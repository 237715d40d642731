"""`sampan snapshot restore`: put the copy of a cluster into a data directory, copy its flags, and adapt objects that
refer to the original data directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_dir
from sampan.cli.local_cluster.cluster_registry import register_cluster
from sampan.cli.snapshot.save import contents
from sampan.cluster.snapshot import (
    Relocation,
    SnapshotError,
    SnapshotManifest,
    describe_store,
    read_archive,
    read_manifest,
    relocate_objects,
    remove_tokens,
)
from sampan.cluster.snapshot.manifest import FLAGS, STORE
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.private_files import write_private
from sampan.runtimes.safe_paths import open_file

STORE_FLAGS = frozenset({"store", "etcd_servers"})
"""The flags about the store of the original cluster. They are dropped, because the copy has a SQLite store of its
own."""
HOST_FLAGS = frozenset({"secure_port", "chosen_port", "cluster_cidr", "bind_address"})
"""The flags whose values only one running cluster of a machine can use."""


@click.command("restore")
@click.argument("file", metavar="FILE")
@click.option("--name", envvar="SAMPAN_NAME", help="Name of the new cluster. Default: that of the saved cluster.")
@click.option("--data-dir", envvar="SAMPAN_DATA_DIR", metavar="DIR", help="Data directory of the new cluster.")
@click.option("--replace", is_flag=True, help="Replace the data of a cluster that exists and is stopped.")
@click.option(
    "--new-keys",
    is_flag=True,
    help="Give the cluster a CA and keys of its own, and remove the tokens in its secrets, so that it does not accept "
    "credentials of the saved cluster.",
)
def restore_command(file: str, name: str | None, data_dir: str | None, replace: bool, new_keys: bool) -> None:
    """Restore a cluster from FILE.

    The cluster is new, or with --replace one that is stopped, whose data are removed. `sampan up` starts it. Restore
    only snapshots that you trust: their pods run on this machine.
    """
    path = Path(file)
    manifest = _manifest(path)
    directory = cluster_dir(data_dir, name if name is not None else manifest.cluster)
    _check_target(directory, replace=replace)
    new_name = name if name is not None else manifest.cluster
    restore = partial(_restore, path, directory, new_name, data_dir, has_new_keys=new_keys)
    if manifest.volumes and os.geteuid() != 0 and rootless.is_possible():  # volume files have several owners
        raise SystemExit(rootless.run_inside(restore, has_outgoing=False))
    restore()


def _manifest(path: Path) -> SnapshotManifest:
    try:
        with open_file(path) as stream:
            return read_manifest(stream)
    except SnapshotError as error:
        raise CliError(f"{path}: {error}") from None


def _check_target(directory: ClusterDir, *, replace: bool) -> None:
    directory.check()
    if directory.is_joined:
        raise CliError(f"--data-dir: {directory.path} is that of a node that joined a cluster")
    if directory.is_cluster and not replace:
        raise CliError(f"--name: {directory.name} exists; --replace removes its data, or choose another --name")


def _restore(path: Path, directory: ClusterDir, name: str, data_dir: str | None, *, has_new_keys: bool) -> None:
    began = time.monotonic()
    undo = directory.make()
    lock = directory.lock()
    if not lock.acquire(makes_file=True):
        raise CliError(f"--name: {directory.name} is running; `sampan down --name {directory.name}` stops it")
    is_done = False
    try:
        with tempfile.TemporaryDirectory(dir=directory.path, prefix=".state.db.") as scratch:
            manifest = _unpack(path, Path(scratch), directory, has_new_keys=has_new_keys)
            directory.replace_data(Path(scratch))
        is_done = True
    finally:
        if not is_done:
            undo()
        lock.release()
    directory.hand_over()
    register_cluster(name, directory.path)
    click.echo(f"restored {name} from {path} in {time.monotonic() - began:.2f} s")
    for line in contents(manifest):
        click.echo(f"  {line}")
    click.echo(f"  start     {up_command(directory, data_dir)}")


def _unpack(path: Path, scratch: Path, directory: ClusterDir, *, has_new_keys: bool) -> SnapshotManifest:
    try:
        with open_file(path) as stream:
            manifest = read_archive(stream, scratch, max_bytes=free_bytes(scratch))
        if not (scratch / STORE).exists() or not (scratch / "pki").is_dir():
            raise SnapshotError("it has no objects or no keys")
        is_encrypted = describe_store(scratch / STORE).is_encrypted
        flags = scratch / FLAGS
        write_flags(flags, flags, STORE_FLAGS)
    except SnapshotError as error:
        raise CliError(f"{path}: {error}") from None
    except RecursionError:
        raise CliError(f"{path}: {FLAGS} is nested too deeply") from None
    if has_new_keys:
        if is_encrypted:
            raise CliError(f"--new-keys: objects of {path} are encrypted, and tokens in them cannot be removed")
        shutil.rmtree(scratch / "pki")  # the next start makes new ones
        remove_tokens(scratch / STORE)
    relocate(scratch / STORE, manifest, directory, drops_other_nodes=False)
    for name, mode in (("images", 0o711), ("volumes", 0o700)):
        if (scratch / name).is_dir():
            (scratch / name).chmod(mode)
    if is_encrypted:
        click.echo("objects are encrypted: start it with the --encryption-provider-config of the original", err=True)
    return manifest


def write_flags(source: Path, target: Path, dropped: Collection[str]) -> None:
    """Copy the remembered flags of a cluster, without the flags in `dropped`."""
    if not source.exists():
        return
    try:
        values = msgspec.json.decode(source.read_bytes(), type=dict[str, Any])
    except JSON_ERRORS as error:
        raise SnapshotError(f"{source.name} cannot be read: {error}") from None
    write_private(target, msgspec.json.encode({key: value for key, value in values.items() if key not in dropped}))


def relocate(store: Path, manifest: SnapshotManifest, directory: ClusterDir, *, drops_other_nodes: bool) -> None:
    """Adapt the objects of a copied store to the data directory of the new cluster."""
    relocation = Relocation(
        old_volumes=manifest.volume_root,
        new_volumes=str(directory.volumes),
        local_nodes=manifest.local_nodes,
        drops_other_nodes=drops_other_nodes,
    )
    relocate_objects(store, relocation)
    for suffix in (".lock", ".reserve"):  # these files belong to the process that had the store open
        Path(f"{store}{suffix}").unlink(missing_ok=True)


def up_command(directory: ClusterDir, data_dir: str | None) -> str:
    return f"sampan up --name {directory.name}" + (f" --data-dir {data_dir}" if data_dir is not None else "")


def free_bytes(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
