"""`kubectl create -f`: create objects from files."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.kinds import Kinds
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.placing import kind_for, namespace_for
from sampan.cli.kubectl.session import Refusals, ServerError, open_session


@click.command("create")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="F",
    help="File, directory or - (standard input) with the objects to create.",
)
@click.option("-R", "--recursive", is_flag=True, help="Process the directory given with -f recursively.")
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the objects.")
@click.option(
    "--dry-run",
    default="none",
    type=click.Choice(["none", "server"]),
    help='With "server", send the request and validate it without storing anything.',
)
@click.pass_obj
def command(flags: dict[str, Any], files: tuple[str, ...], recursive: bool, namespace: str, dry_run: str) -> None:
    """Create objects from files or standard input."""
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    manifests = read_manifests(files, action="create", recursive=recursive)
    kinds = Kinds(session)
    placed = [(manifest, kind_for(kinds, manifest)) for manifest in manifests]
    query = {"fieldManager": "kubectl-create", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    refusals = Refusals()
    for manifest, kind in placed:
        path = kind.collection(namespace_for(kind, manifest, session, namespace))
        try:
            created = session.send("POST", path, query, body=manifest.value)
        except ServerError as error:
            refusals.add(error.about(f'error when creating "{manifest.source}"'))
            continue
        suffix = " (server dry run)" if dry_run == "server" else ""
        click.echo(f"{kind.qualified}/{created['metadata']['name']} created{suffix}")
    refusals.end()


__all__ = ["command"]
