"""`kubectl uncordon`: mark nodes as schedulable."""

from __future__ import annotations

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import dry_run_strategy
from sampan.kubectl.commands.cordon import CordonOptions, select_nodes, set_schedulable


@KubectlCommand.define("uncordon", CordonOptions)
def command(factory: Factory, options: CordonOptions) -> None:
    """Mark nodes as schedulable."""
    dry_run = dry_run_strategy(options.dry_run)
    nodes = select_nodes(factory, "uncordon", options)
    set_schedulable(factory, nodes, is_cordoned=False, dry_run=dry_run)
