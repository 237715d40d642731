"""Server-side apply and the migration of objects that were applied on the client side
(`kubectl/pkg/cmd/apply`, `client-go/util/csaupgrade`)."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text
from sampan.kubectl.objects.object_writer import APPLY, JSON_PATCH, ObjectWriter
from sampan.kubectl.objects.targets import ResourceInfo

SERVER_SIDE_MANAGER = "kubectl"
_ANNOTATION_MANAGER = "kubectl-last-applied"
_RETRIES = 5
_CONFLICT_HELP = """
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts"""


def apply_on_server(writer: ObjectWriter, info: ResourceInfo, *, force: bool) -> dict[str, Any]:
    """Apply an object and return the result. Fields of an earlier client-side apply change their owner."""
    value = _send(writer, info, info.value, force=force)
    try:
        value = _keep_annotation(writer, info, value)
    except ServerError as error:
        _warn("failed to migrate kubectl.kubernetes.io/last-applied-configuration for Server-Side Apply", error)
        return value
    try:
        migrated = _migrate(writer, info, value)
    except ServerError as error:
        _warn("server rejected managed fields migration to Server-Side Apply", error)
        return value
    if migrated is None:
        return value
    try:
        return _send(writer, info, info.value, force=force)
    except (ServerError, KubectlError) as error:
        _warn("failed to re-apply configuration after performing Server-Side Apply migration", error)
        return migrated


def _send(writer: ObjectWriter, info: ResourceInfo, value: dict[str, Any], *, force: bool) -> dict[str, Any]:
    try:
        return writer.patch(info, value, APPLY, {"force": "true" if force else "false"})
    except ServerError as error:
        if error.error.reason == "Conflict":
            raise KubectlError(f"{error.error.message}{_CONFLICT_HELP}") from None
        if error.error.code == 415:
            message = f"Server-side apply not available on the server: ({error.error.message})"
            raise KubectlError(message) from None
        raise


def _warn(problem: str, error: click.ClickException) -> None:
    text = error.error.message if isinstance(error, ServerError) else error.message
    advice = "This is non-fatal and will be retried next time you apply."
    click.echo(f"Warning: {problem}. {advice} Error: {text}", err=True)


def _keep_annotation(writer: ObjectWriter, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any]:
    """Make a separate field manager the owner of the last-applied annotation, so that the annotation stays when kubectl
    no longer sends it."""
    text = last_applied_text(value)
    if writer.field_manager != SERVER_SIDE_MANAGER or text is None or _owners(value, "Apply"):
        return value
    metadata: dict[str, Any] = {"name": info.name, "annotations": {LAST_APPLIED: text}}
    metadata |= {"namespace": info.namespace} if info.namespace else {}
    only_annotation = {"apiVersion": info.kind.api_version, "kind": info.kind.kind, "metadata": metadata}
    owner = ObjectWriter(
        session=writer.session,
        field_manager=_ANNOTATION_MANAGER,
        dry_run=writer.dry_run,
        validation=writer.validation,
    )
    return owner.patch(info, only_annotation, APPLY)


def _migrate(writer: ObjectWriter, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any] | None:
    """Move the fields of client-side managers to the manager of this command. Return None if there is nothing to
    move."""
    managers = {entry["manager"] for entry in _owners(value, "Update")}
    for attempt in range(_RETRIES):
        entries = migrate_fields(_managed_fields(value), managers, writer.field_manager)
        if entries is None:
            return None
        version = value["metadata"].get("resourceVersion", "")
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        try:
            return writer.patch(info, patch, JSON_PATCH)
        except ServerError as error:
            if error.error.reason != "Conflict" or attempt == _RETRIES - 1:
                raise
            value = writer.session.get(info.path)
    return None


def migrate_fields(entries: list[dict[str, Any]], managers: set[str], manager: str) -> list[dict[str, Any]] | None:
    """Return managedFields in which the fields of the client-side `managers` belong to the server-side `manager`.
    Return None if there is nothing to change."""
    olds = [entry for entry in entries if _is_main(entry, "Update") and entry["manager"] in managers]
    if not olds:
        return None
    current = next((entry for entry in entries if _is_main(entry, "Apply") and entry["manager"] == manager), None)
    target = current if current is not None else {**olds[0], "manager": manager, "operation": "Apply"}
    fields = target.get("fieldsV1") or {}
    for old in olds:
        fields = _union(fields, old.get("fieldsV1") or {})
    target = {**target, "fieldsV1": fields}
    unchanged_entries = [entry for entry in entries if entry is not current and entry not in olds]
    return [*unchanged_entries, target]


def _is_main(entry: dict[str, Any], operation: str) -> bool:
    return entry.get("operation") == operation and not entry.get("subresource")


def _union(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    result = dict(first)
    for key, part in second.items():
        result[key] = _union(result[key], part) if key in result else part
    return result


def _managed_fields(value: dict[str, Any]) -> list[dict[str, Any]]:
    return value["metadata"].get("managedFields") or []


def _owners(value: dict[str, Any], operation: str) -> list[dict[str, Any]]:
    """Return the managedFields entries with this operation that own the last-applied annotation."""
    owners: list[dict[str, Any]] = []
    for entry in _managed_fields(value):
        fields = entry.get("fieldsV1") or {}
        annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
        if entry.get("operation") == operation and f"f:{LAST_APPLIED}" in annotations:
            owners.append(entry)
    return owners
