"""`kubectl apply -f`: what was applied last, what is wanted now and what is there decide what changes."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sampan.cli.kubectl.kinds import Kind, Kinds
from sampan.cli.kubectl.manifests import read_manifests
from sampan.cli.kubectl.placing import namespace_for
from sampan.cli.kubectl.session import ServerError, Session, open_session

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_STRATEGIC, _MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


@click.command("apply")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="F", help="Files, folders, or -.")
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders too.")
@click.option("-n", "--namespace", default="", metavar="NS", help="The namespace to work in.")
@click.option("--dry-run", default="none", type=click.Choice(["none", "server"]), help="Check, store nothing.")
@click.pass_obj
def command(flags: dict[str, Any], files: tuple[str, ...], recursive: bool, namespace: str, dry_run: str) -> None:
    """Bring objects into the state that files describe."""
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    kinds, failed = Kinds(session), False
    query = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    for obj in read_manifests(files, recursive=recursive):
        kind = kinds.of(obj["apiVersion"], obj["kind"])
        try:
            verb = _apply(session, kind, obj, namespace_for(kind, obj, session, namespace), query)
        except ServerError as error:
            click.echo(error.text, err=True)
            failed = True
            continue
        suffix = " (server dry run)" if dry_run == "server" else ""
        click.echo(f"{kind.qualified}/{obj['metadata']['name']} {verb}{suffix}")
    if failed:
        raise SystemExit(1)


def _apply(session: Session, kind: Kind, obj: dict[str, Any], namespace: str, query: dict[str, str]) -> str:
    wanted = annotated(obj, namespace)
    path = kind.object(namespace, obj["metadata"]["name"])
    try:
        current = session.get(path)
    except ServerError as error:
        if error.error.reason != "NotFound":
            raise
        session.send("POST", kind.collection(namespace), query, body=wanted)
        return "created"
    patch, media = difference(wanted, current)
    if not patch:
        return "unchanged"
    changed = session.send("PATCH", path, query, body=patch, content_type=media)
    same = changed["metadata"].get("resourceVersion") == current["metadata"].get("resourceVersion")
    return "unchanged" if same else "configured"


def annotated(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object with a note of itself, from which the next apply sees what was taken out."""
    metadata = dict(obj["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    notes = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    plain = {**obj, "metadata": {**metadata, "annotations": notes}}
    note = msgspec.json.encode(plain, order="sorted").decode() + "\n"
    return {**obj, "metadata": {**metadata, "annotations": {**notes, LAST_APPLIED: note}}}


def difference(wanted: dict[str, Any], current: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The patch that brings what is there to what is wanted, and its media type."""
    from sampan.api import schemas
    from sampan.api.resource import GroupVersionKind
    from sampan.api.scheme import type_for
    from sampan.machinery import patch

    note = (current["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    original = msgspec.json.decode(note) if note else {}
    group, _, version = wanted["apiVersion"].rpartition("/")
    found = type_for(GroupVersionKind(group=group, version=version, kind=wanted["kind"]))
    if found is None:
        return patch.three_way_merge_diff(original, wanted, current), _MERGE
    return patch.three_way_strategic_diff(original, wanted, current, schemas.of(found)), _STRATEGIC
