"""`kubectl create -f`."""

from __future__ import annotations

from typing import Any

import click

from sampan.cli.kubectl.kinds import Kinds
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.placing import namespace_for
from sampan.cli.kubectl.session import ServerError, open_session


@click.command("create")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="F", help="Files, folders, or -.")
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders too.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace to work in.")
@click.option("--dry-run", default="none", type=click.Choice(["none", "server"]), help="Check, store nothing.")
@click.pass_obj
def command(flags: dict[str, Any], files: tuple[str, ...], recursive: bool, namespace: str, dry_run: str) -> None:
    """Create objects from files."""
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    kinds, failed = Kinds(session), False
    query = {"fieldManager": "kubectl-create", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    for obj in read_manifests(files, recursive=recursive):
        try:
            kind = kinds.of(obj["apiVersion"], obj["kind"])
            made = session.send("POST", kind.collection(namespace_for(kind, obj, session, namespace)), query, body=obj)
        except ServerError as error:
            where = f'error when creating "{", ".join(files)}": '
            click.echo(error.text.replace(": ", f": {where}", 1), err=True)
            failed = True
            continue
        suffix = " (server dry run)" if dry_run == "server" else ""
        click.echo(f"{kind.qualified}/{made['metadata']['name']} created{suffix}")
    if failed:
        raise SystemExit(1)


__all__ = ["command"]
