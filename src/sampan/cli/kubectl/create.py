"""`kubectl create -f`: create objects from files."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.kinds import ResourceTypes
from sampan.cli.kubectl.manifest_options import manifest_options
from sampan.cli.kubectl.manifest_targets import kind_for, namespace_for
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.session import Refusals, ServerError, open_session


@click.command("create")
@manifest_options("create")
@click.pass_obj
def command(flags: dict[str, Any], files: tuple[str, ...], recursive: bool, namespace: str, dry_run: str) -> None:
    """Create objects from files or standard input."""
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    manifests = read_manifests(files, action="create", recursive=recursive)
    kinds = ResourceTypes(session)
    targets = [(manifest, kind_for(kinds, manifest)) for manifest in manifests]
    query = {"fieldManager": "kubectl-create", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    refusals = Refusals()
    for manifest, kind in targets:
        path = kind.collection(namespace_for(kind, manifest, session, namespace))
        try:
            created = session.send("POST", path, query, body=manifest.value)
        except ServerError as error:
            refusals.add(error.about(f'error when creating "{manifest.source}"'))
            continue
        suffix = " (server dry run)" if dry_run == "server" else ""
        click.echo(f"{kind.qualified}/{created['metadata']['name']} created{suffix}")
    refusals.end()
