"""The version of Sampan that wrote the data directory of a cluster, and whether the running version can use it.

A data directory has a format: a number that is increased when older versions can no longer use the data of newer ones.
The store has a format of its own (`sampan.storage.sqlite.schema`), which is converted when the store is opened.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from sampan import __version__
from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.private_files import write_private

DATA_FORMAT = 1
"""The newest format of a data directory that this version writes and reads."""


class DataVersion(msgspec.Struct):
    """The content of `version.json`."""

    version: str = ""
    """The version of Sampan that last started the cluster; empty if that version recorded none."""
    format: int = 1


def read_version(directory: ClusterDir) -> DataVersion:
    """Return the version and format that the last start recorded. A directory without a record has the first format."""
    try:
        return msgspec.json.decode(directory.version_file.read_bytes(), type=DataVersion)
    except FileNotFoundError:
        return DataVersion()
    except (OSError, msgspec.MsgspecError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CliError(f"--data-dir: cannot read {directory.version_file}: {reason}") from None


def data_problem(directory: ClusterDir) -> str:
    """Return why this version cannot use the data directory; empty if it can."""
    recorded = read_version(directory)
    if recorded.format > DATA_FORMAT:
        return (
            f"{directory.path} was written by Sampan {recorded.version} (data format {recorded.format}); this is "
            f"{__version__}, which knows formats up to {DATA_FORMAT}"
        )
    return ""


def check_version(directory: ClusterDir) -> None:
    """Raise CliError for a data directory of a newer format, before anything in it is changed."""
    if problem := data_problem(directory):
        raise CliError(f"--data-dir: {problem}: use that version, or another --name")


def write_version(directory: ClusterDir) -> None:
    write_private(directory.version_file, msgspec.json.encode(DataVersion(__version__, DATA_FORMAT)))


def store_format(path: Path) -> int | None:
    """Return the format of a SQLite store; None if there is none or it cannot be read."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error:
        return None
