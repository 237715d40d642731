"""`kubectl apply edit-last-applied`: edit the configuration that was applied last."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.editor import LastAppliedEdit
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.object_writer import record_option
from sampan.cli.kubectl.options import (
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
    validate_option,
)


@click.command("edit-last-applied", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@record_option()
@output_options()
@filename_options("to edit")
@click.option("--windows-line-endings", is_flag=True, help="End lines as Windows does.")
@field_manager_option("kubectl-client-side-apply")
@validate_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Edit the configuration that was applied last."""
    edit = LastAppliedEdit(factory, options)
    builder = factory.resources(words=words, files=filename_flags(options), allows_all=True, fetches_latest=True)
    edit.run_for(list(builder.infos()))
