"""`kubectl api-versions`: the API groups and versions that the server serves."""

from __future__ import annotations

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import ConnectionFailure
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.errors import UsageError


@click.command("api-versions", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...]) -> None:
    """Print the API versions of the server, each as GROUP/VERSION."""
    if words:
        raise UsageError(f"unexpected arguments: [{' '.join(words)}]")
    try:
        versions = list(factory.session.get("/api", {"timeout": "32s"}).get("versions") or ())
    except ConnectionFailure as error:
        raise error.add_context("couldn't get available api versions from server") from None
    for group in factory.session.get("/apis").get("groups") or ():
        versions += [version["groupVersion"] for version in group.get("versions") or ()]
    for version in sorted(versions):
        click.echo(version)
