"""`kubectl apply set-last-applied`: store the content of files as the configuration that was applied last."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.command_line.shared_options import dry_run_of, dry_run_option, output_options
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text
from sampan.kubectl.objects.manifests import FilenameFlags
from sampan.kubectl.objects.object_writer import MERGE, ObjectWriter, ResultPrinter
from sampan.kubectl.objects.targets import ResourceInfo


@click.command("set-last-applied", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options()
@dry_run_option()
@click.option("--create-annotation", is_flag=True, help="Also change objects that were never applied.")
@click.option(
    "-f", "--filename", "files", multiple=True, type=STRING_SLICE, metavar="FILE", help="File with the objects."
)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Store the content of files as the configuration that was applied last."""
    dry_run, printer = dry_run_of(options), ResultPrinter(options)
    changes: list[tuple[ResourceInfo, str]] = []
    for info in factory.resources(files=FilenameFlags(options["files"])).infos():
        text = gotext.json_text(info.value) + "\n"
        info.fetch(factory.session)
        current = last_applied_text(info.value)
        if current is None and not options["create_annotation"]:
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
