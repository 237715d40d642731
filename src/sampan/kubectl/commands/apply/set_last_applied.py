"""`kubectl apply set-last-applied`: store the content of files as the configuration that was applied last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_slice_flag
from sampan.kubectl.command_line.shared_flags import FilenameOptions, dry_run_flag, dry_run_strategy
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text
from sampan.kubectl.objects.object_writer import MERGE, ObjectWriter
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLastAppliedOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    dry_run: str = dry_run_flag()
    create_annotation: bool = bool_flag("--create-annotation", help="Also change objects that were never applied.")
    filenames: tuple[str, ...] = string_slice_flag("-f", "--filename", metavar="FILE", help="File with the objects.")


@KubectlCommand.define("set-last-applied", SetLastAppliedOptions)
def command(factory: Factory, options: SetLastAppliedOptions) -> None:
    """Store the content of files as the configuration that was applied last."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    changes: list[tuple[ResourceInfo, str]] = []
    for info in ResourceBuilder(
        factory, source=ResourceSource(files=FilenameOptions(filenames=options.filenames))
    ).infos():
        text = gotext.json_text(info.value) + "\n"
        info.fetch(factory.session)
        current = last_applied_text(info.value)
        if current is None and not options.create_annotation:
            raise KubectlError(
                f"no last-applied-configuration annotation found on resource: {info.name}, to create the annotation, "
                "run the command with --create-annotation"
            )
        if current is not None and _decode_json(current) == _decode_json(text):
            click.echo(f"set-last-applied {info.name}: no changes required.")
        else:
            changes.append((info, text))
    writer = ObjectWriter(session=factory.session, dry_run=dry_run)
    for info, text in changes:
        value = info.value
        if dry_run != "client":
            value = writer.patch(info, {"metadata": {"annotations": {LAST_APPLIED: text}}}, MERGE)
        printer.print(value, "configured")


def _decode_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except JSON_ERRORS:
        return text
