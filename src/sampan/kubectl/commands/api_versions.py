"""`kubectl api-versions`: the API groups and versions that the server serves."""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import ConnectionFailure
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import WordOptions
from sampan.kubectl.errors import UsageError


@KubectlCommand.define("api-versions", WordOptions)
def command(factory: Factory, options: WordOptions) -> None:
    """Print the API versions of the server, each as GROUP/VERSION."""
    if options.words:
        raise UsageError(f"unexpected arguments: [{' '.join(options.words)}]")
    try:
        versions = list(factory.session.get("/api", {"timeout": "32s"}).get("versions") or ())
    except ConnectionFailure as error:
        raise error.add_context("couldn't get available api versions from server") from None
    for group in factory.session.get("/apis").get("groups") or ():
        versions += [version["groupVersion"] for version in group.get("versions") or ()]
    for version in sorted(versions):
        click.echo(version)
