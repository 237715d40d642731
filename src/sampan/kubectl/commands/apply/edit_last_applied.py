"""`kubectl apply edit-last-applied`: edit the configuration that was applied last."""

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
    validate_flag,
)
from sampan.kubectl.commands.edit.editor import LastAppliedEdit
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLastAppliedOptions:
    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    files: FilenameOptions = filename_flags("to edit")
    windows_line_endings: bool = bool_flag("--windows-line-endings", help="Use Windows line endings in the editor.")
    field_manager: str = field_manager_flag("kubectl-client-side-apply")
    validate: str = validate_flag()


@KubectlCommand.define("edit-last-applied", EditLastAppliedOptions)
def command(factory: Factory, options: EditLastAppliedOptions) -> None:
    """Edit the configuration that was applied last."""
    edit = LastAppliedEdit(factory, options)
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=options.words, allows_all=True),
        ResourceSource(files=options.files),
        ResourceFetch(fetches_latest=True),
    )
    edit.run_for(list(builder.infos()))
