"""`kubectl top`: show the resource usage of nodes and pods."""

from __future__ import annotations

import click

from sampan.kubectl.command_line.command import KubectlGroup
from sampan.kubectl.commands.top import node, pod


@click.group("top", cls=KubectlGroup)
def command() -> None:
    """Show the CPU and memory usage of nodes or pods."""


command.add_command(node.command)
command.add_command(pod.command)

__all__ = ["command"]
