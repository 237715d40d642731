"""`kubectl apply view-last-applied`: show the configuration that was applied last."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import filename_flags, filename_options, selector_option
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.objects.last_applied import last_applied_text
from sampan.kubectl.printers import as_yaml


@click.command("view-last-applied", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("-o", "--output", default="yaml", metavar="yaml|json", help="Output format: yaml or json.")
@click.option("--all", "selects_all", is_flag=True, help="Select all objects of the types in the namespace.")
@filename_options("to show")
@selector_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the configuration that was applied last."""
    builder = factory.resources(
        words=words,
        files=filename_flags(options),
        selector=options["selector"],
        selects_all=options["selects_all"],
        allows_all=factory.has_namespace_flag,
        fetches_latest=True,
    )
    texts: list[str] = []
    for info in builder.infos():
        text = last_applied_text(info.value)
        if text is None:
            if not info.source:
                continue
            what = f"no last-applied-configuration annotation found on resource: {info.name}\n"
            raise KubectlError(f'error when {what} "{info.source}": <nil>')
        texts.append(text)
    for text in texts:
        if options["output"] == "json":
            click.echo(msgspec.json.format(text.encode(), indent=2).decode() + "\n", nl=False)
        elif options["output"] == "yaml":
            click.echo(as_yaml(msgspec.json.decode(text)))
        else:
            mode = options["output"]
            raise UsageError(f"Unexpected -o output mode: {mode}, the flag 'output' must be one of yaml|json")
