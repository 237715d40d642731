"""`kubectl apply view-last-applied`: show the configuration that was applied last."""

from __future__ import annotations

from dataclasses import dataclass

import click
import msgspec

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, string_flag
from sampan.kubectl.command_line.shared_flags import FilenameOptions, all_flag, filename_flags, selector_flag
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.objects.last_applied import last_applied_text
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource
from sampan.kubectl.printers import as_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLastAppliedOptions:
    words: tuple[str, ...] = arguments()
    output: str = string_flag(
        "-o", "--output", default="yaml", metavar="yaml|json", help="Output format: yaml or json."
    )
    selects_all: bool = all_flag()
    files: FilenameOptions = filename_flags("to show")
    selector: str = selector_flag()


@KubectlCommand.define("view-last-applied", ViewLastAppliedOptions)
def command(factory: Factory, options: ViewLastAppliedOptions) -> None:
    """Show the configuration that was applied last."""
    builder = ResourceBuilder(
        factory,
        ResourceSelection(
            words=options.words,
            selector=options.selector,
            selects_all=options.selects_all,
            allows_all=factory.has_namespace_flag,
        ),
        ResourceSource(files=options.files),
        ResourceFetch(fetches_latest=True),
    )
    texts: list[str] = []
    for info in builder.infos():
        text = last_applied_text(info.value)
        if text is None:
            if not info.source:
                continue
            problem = f"no last-applied-configuration annotation found on resource: {info.name}\n"
            raise KubectlError(f'error when {problem} "{info.source}": <nil>')
        texts.append(text)
    for text in texts:
        if options.output == "json":
            click.echo(msgspec.json.format(text.encode(), indent=2).decode() + "\n", nl=False)
        elif options.output == "yaml":
            click.echo(as_yaml(msgspec.json.decode(text)))
        else:
            mode = options.output
            raise UsageError(f"Unexpected -o output mode: {mode}, the flag 'output' must be one of yaml|json")
