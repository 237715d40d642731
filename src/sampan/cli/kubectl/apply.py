"""`kubectl apply -f`: a three-way merge of the last applied, the wanted and the current configuration."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sampan.cli.kubectl.kinds import ResourceType, ResourceTypes
from sampan.cli.kubectl.manifest_options import manifest_options
from sampan.cli.kubectl.manifest_targets import kind_for, namespace_for
from sampan.cli.kubectl.manifests import ManifestObject, read_manifests
from sampan.cli.kubectl.session import Refusals, ServerError, Session, open_session

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NO_NOTE = (
    f"Warning: resource {{}} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. "
    "kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or "
    "kubectl apply. The missing annotation will be patched automatically."
)
_MASK = "***"
_STRATEGIC, _MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


@click.command("apply")
@manifest_options("apply")
@click.pass_obj
def command(flags: dict[str, Any], files: tuple[str, ...], recursive: bool, namespace: str, dry_run: str) -> None:
    """Apply the configuration in files to objects.

    Objects that do not exist are created.
    """
    session = open_session(flags | ({"namespace": namespace} if namespace else {}))
    manifests = read_manifests(files, action="apply", recursive=recursive)
    kinds, refusals = ResourceTypes(session), Refusals()
    targets = [(manifest, kind_for(kinds, manifest)) for manifest in manifests]
    query = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    for manifest, kind in targets:
        try:
            verb = _apply(session, kind, manifest, namespace_for(kind, manifest, session, namespace), query)
        except ServerError as error:
            refusals.add(error)
            continue
        suffix = " (server dry run)" if dry_run == "server" else ""
        click.echo(f"{kind.qualified}/{manifest.name} {verb}{suffix}")
    refusals.end()


def _apply(
    session: Session, kind: ResourceType, manifest: ManifestObject, namespace: str, query: dict[str, str]
) -> str:
    desired = annotated(manifest.value, namespace)
    current = _current(session, kind.object(namespace, manifest.name))
    if current is None:
        return _create(session, kind, manifest, namespace, query, desired)
    if LAST_APPLIED not in (current["metadata"].get("annotations") or {}):
        click.echo(_NO_NOTE.format(f"{kind.plural}/{manifest.name}"), err=True)
    patch, media = difference(desired, current)
    if not patch:
        return "unchanged"
    try:
        changed = session.send("PATCH", kind.object(namespace, manifest.name), query, body=patch, content_type=media)
    except ServerError as error:
        raise error.about(_applying(kind, manifest, namespace, patch)) from None
    same = changed["metadata"].get("resourceVersion") == current["metadata"].get("resourceVersion")
    return "unchanged" if same and "dryRun" not in query else "configured"


def _current(session: Session, path: str) -> dict[str, Any] | None:
    try:
        live: dict[str, Any] = session.get(path)
    except ServerError as error:
        if error.error.reason != "NotFound":
            raise
        return None
    return live


def _create(
    session: Session,
    kind: ResourceType,
    manifest: ManifestObject,
    namespace: str,
    query: dict[str, str],
    desired: dict[str, Any],
) -> str:
    try:
        session.send("POST", kind.collection(namespace), query, body=desired)
    except ServerError as error:
        raise error.about(f'error when creating "{manifest.source}"') from None
    return "created"


def _applying(kind: ResourceType, manifest: ManifestObject, namespace: str, patch: dict[str, Any]) -> str:
    group = f"{kind.group}/{kind.version}, " if kind.group else f"/{kind.version}, "
    return (
        f"error when applying patch:\n{msgspec.json.encode(_shown(kind, patch)).decode()}\nto:\n"
        f'Resource: "{group}Resource={kind.plural}", GroupVersionKind: "{group}Kind={kind.kind}"\n'
        f'Name: "{manifest.name}", Namespace: "{namespace}"\nfor: "{manifest.source}": error when patching '
        f'"{manifest.source}"'
    )


def _shown(kind: ResourceType, patch: dict[str, Any]) -> dict[str, Any]:
    """Return the patch for printing. The data of a Secret are masked, also in the annotation that repeats them."""
    if (kind.group, kind.kind) != ("", "Secret"):
        return patch
    shown = {key: part for key, part in patch.items() if key not in ("data", "stringData")}
    for key in ("data", "stringData"):
        if isinstance(patch.get(key), dict):
            shown[key] = dict.fromkeys(patch[key], _MASK)
    notes = (shown.get("metadata") or {}).get("annotations")
    if notes and LAST_APPLIED in notes:
        shown["metadata"] = {**shown["metadata"], "annotations": {**notes, LAST_APPLIED: _MASK}}
    return shown


def annotated(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the object with the last-applied annotation, by which the next apply detects removed fields."""
    metadata = dict(obj["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    notes = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    plain = {**obj, "metadata": {**metadata, "annotations": notes}}
    note = msgspec.json.encode(plain, order="sorted").decode() + "\n"
    return {**obj, "metadata": {**metadata, "annotations": {**notes, LAST_APPLIED: note}}}


def difference(desired: dict[str, Any], current: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the patch from the current to the desired object, and its media type."""
    from sampan.api import schemas
    from sampan.api.resource import GroupVersionKind
    from sampan.api.scheme import type_for
    from sampan.machinery import patch

    note = (current["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    original = msgspec.json.decode(note) if note else {}
    group, _, version = desired["apiVersion"].rpartition("/")
    model = type_for(GroupVersionKind(group=group, version=version, kind=desired["kind"]))
    if model is None:
        return patch.three_way_merge_diff(original, desired, current), _MERGE
    return patch.three_way_strategic_diff(original, desired, current, schemas.of(model)), _STRATEGIC
