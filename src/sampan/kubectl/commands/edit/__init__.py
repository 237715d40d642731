"""`kubectl edit`: change objects in an editor."""

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
    subresource_option,
    validate_option,
)
from sampan.kubectl.commands.edit.editor import CreateEdit, LiveEdit
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.object_writer import record_option, save_config_option


@click.command("edit", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@record_option()
@output_options()
@filename_options("to edit")
@validate_option()
@click.option("--output-patch", is_flag=True, help="Print the patch that is sent.")
@click.option("--windows-line-endings", is_flag=True, help="Use Windows line endings in the editor.")
@field_manager_option("kubectl-edit")
@save_config_option()
@subresource_option("Edit this subresource of the object.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change objects in the editor of $KUBE_EDITOR or $EDITOR."""
    edit = LiveEdit(factory, options)
    builder = factory.resources(
        words=words,
        files=filename_flags(options),
        allows_all=True,
        fetches_latest=True,
        subresource=options["subresource"],
    )
    infos = list(builder.infos())
    if not infos:
        raise KubectlError("edit cancelled, no objects found")
    edit.run(infos)


def edit_before_create(factory: Factory, options: dict[str, Any]) -> None:
    """Open each object of the files in the editor and create it (`kubectl create --edit`)."""
    edit = CreateEdit(factory, options)
    for info in factory.resources(files=filename_flags(options)).infos():
        edit.run([info])
