"""`kubectl apply -f`: a three-way merge of the last applied, the wanted and the current configuration."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import ErrorAggregate, KubectlError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.kinds import ResourceType
from sampan.cli.kubectl.options import dry_run_of, dry_run_option, filename_flags, filename_options
from sampan.cli.kubectl.printers import print_result
from sampan.cli.kubectl.session import ServerError, Session
from sampan.cli.kubectl.targets import ResourceInfo

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NO_NOTE = (
    f"Warning: resource {{}} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. "
    "kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or "
    "kubectl apply. The missing annotation will be patched automatically."
)
_MASK = "***"
_STRATEGIC, _MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"


@click.command("apply", cls=KubectlCommand)
@filename_options("to apply")
@dry_run_option()
@click.pass_obj
def command(factory: Factory, /, **options: Any) -> None:
    """Apply the configuration in files to objects.

    Objects that do not exist are created.
    """
    files, dry_run = filename_flags(options), dry_run_of(options)
    if not files:
        raise KubectlError("must specify one of -f and -k")
    errors = ErrorAggregate()
    infos = list(factory.resources(files=files, validates=True).infos(errors))
    query = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run == "server" else {}
    for info in infos:
        with errors.collect():
            print_result(info, _apply(factory.session, info, query), dry_run=dry_run)
    errors.raise_any()
    if not infos:
        raise KubectlError("no objects passed to apply")


def _apply(session: Session, info: ResourceInfo, query: dict[str, str]) -> str:
    kind, namespace = info.kind, info.namespace
    desired = annotated(info.value, namespace)
    current = _current(session, info.path)
    if current is None:
        return _create(session, info, query, desired)
    if LAST_APPLIED not in (current["metadata"].get("annotations") or {}):
        click.echo(_NO_NOTE.format(f"{kind.plural}/{info.name}"), err=True)
    patch, media = difference(desired, current)
    if not patch:
        return "unchanged"
    try:
        changed = session.send("PATCH", info.path, query, body=patch, content_type=media)
    except ServerError as error:
        raise error.about(_applying(info, patch)) from None
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


def _create(session: Session, info: ResourceInfo, query: dict[str, str], desired: dict[str, Any]) -> str:
    try:
        session.send("POST", info.collection, query, body=desired)
    except ServerError as error:
        raise error.about(f'error when creating "{info.source}"') from None
    return "created"


def _applying(info: ResourceInfo, patch: dict[str, Any]) -> str:
    kind = info.kind
    group = f"{kind.group}/{kind.version}, " if kind.group else f"/{kind.version}, "
    return (
        f"error when applying patch:\n{msgspec.json.encode(_shown(kind, patch)).decode()}\nto:\n"
        f'Resource: "{group}Resource={kind.plural}", GroupVersionKind: "{group}Kind={kind.kind}"\n'
        f'Name: "{info.name}", Namespace: "{info.namespace}"\nfor: "{info.source}": error when patching '
        f'"{info.source}"'
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
