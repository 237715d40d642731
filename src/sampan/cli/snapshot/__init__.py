"""`sampan snapshot`: save the objects, images and volumes of a cluster to a file, restore them, and fork a cluster.

`save`, `restore`, `fork` and `snapshot_table` are the commands; `save` copies the store and describes a cluster, and
`restore` puts a copy into a data directory. The format of the file is in `sampan.cluster.snapshot`.
"""

from __future__ import annotations

import click

from sampan.cli.command_classes import AliasGroup
from sampan.cli.snapshot.fork import fork_command
from sampan.cli.snapshot.restore import restore_command
from sampan.cli.snapshot.save import save_command
from sampan.cli.snapshot.snapshot_table import list_command


@click.group("snapshot", cls=AliasGroup)
def command() -> None:
    """Save, restore, fork and list the state of clusters.

    A snapshot has the objects, keys, images and volumes of a cluster at one moment, in one file. Restore only snapshots
    that you trust: their pods run on this machine.
    """


for subcommand in (save_command, restore_command, fork_command, list_command):
    command.add_command(subcommand)

__all__ = ["command"]
