"""`kubectl edit`: change objects in an editor."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    field_manager_flag,
    filename_flags,
    record_flag,
    save_config_flag,
    subresource_flag,
    validate_flag,
)
from sampan.kubectl.commands.edit.editor import LiveEdit
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions:
    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    files: FilenameOptions = filename_flags("to edit")
    validate: str = validate_flag()
    output_patch: bool = bool_flag("--output-patch", help="Print the patch that is sent.")
    windows_line_endings: bool = bool_flag("--windows-line-endings", help="Use Windows line endings in the editor.")
    field_manager: str = field_manager_flag("kubectl-edit")
    save_config: bool = save_config_flag()
    subresource: str = subresource_flag("Edit this subresource of the object.")


@KubectlCommand.define("edit", EditOptions)
def command(factory: Factory, options: EditOptions) -> None:
    """Change objects in the editor of $KUBE_EDITOR or $EDITOR."""
    edit = LiveEdit(
        factory,
        options,
        prints_patch=options.output_patch,
        saves_config=options.save_config,
        subresource=options.subresource,
    )
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=options.words, allows_all=True, subresource=options.subresource),
        ResourceSource(files=options.files),
        ResourceFetch(fetches_latest=True),
    )
    infos = list(builder.infos())
    if not infos:
        raise KubectlError("edit cancelled, no objects found")
    edit.run(infos)
