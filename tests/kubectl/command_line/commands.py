"""All commands of kubectl."""

from __future__ import annotations

import click

from sampan.kubectl.command import KubectlCommand, KubectlGroup


def all_commands(group: KubectlGroup, path: str = "") -> dict[str, KubectlCommand]:
    """Return the commands of a group, and those of the groups in it, by names such as `rollout status`."""
    ctx = click.Context(group)
    commands: dict[str, KubectlCommand] = {}
    for name in group.list_commands(ctx):
        inner = group.get_command(ctx, name)
        assert isinstance(inner, KubectlCommand)
        commands[f"{path}{name}"] = inner
        if isinstance(inner, KubectlGroup):
            commands |= all_commands(inner, f"{path}{name} ")
    return commands
