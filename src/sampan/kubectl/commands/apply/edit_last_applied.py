"""`kubectl apply edit-last-applied`: edit the configuration that was applied last."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import (
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    validate_option,
)
from sampan.kubectl.commands.edit.editor import LastAppliedEdit
from sampan.kubectl.objects.object_writer import record_option


@click.command("edit-last-applied", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@record_option()
@output_options()
@filename_options("to edit")
@click.option("--windows-line-endings", is_flag=True, help="Use Windows line endings in the editor.")
@field_manager_option("kubectl-client-side-apply")
@validate_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Edit the configuration that was applied last."""
    edit = LastAppliedEdit(factory, options)
    builder = factory.resources(words=words, files=filename_flags(options), allows_all=True, fetches_latest=True)
    edit.run_for(list(builder.infos()))
