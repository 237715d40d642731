"""The patch of a client-side apply: from the last applied, the new and the live configuration
(`kubectl/pkg/cmd/apply/patcher.go`)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sampan.api.go_compat import gotext
from sampan.api.schema.tree import ANY, Schema
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.deletion import Deletion, is_present
from sampan.kubectl.objects.last_applied import LAST_APPLIED, decode_last_applied
from sampan.kubectl.objects.object_writer import MERGE, STRATEGIC, ObjectWriter
from sampan.kubectl.objects.patch_metadata import built_in_schema, schema_of_document
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import as_yaml

_RETRIES = 5
_RETRY_S = 1.0
_MASK = "***"
Patch = dict[str, Any]


class PatchSchemas:
    """The patch metadata of kinds. Each OpenAPI document is read once."""

    def __init__(self, session: Session, *, uses_openapi: bool) -> None:
        self._session, self._uses_openapi = session, uses_openapi
        self._documents: dict[str, dict[str, Any] | None] = {}
        self._paths: dict[str, Any] | None = None

    def schema(self, info: ResourceInfo) -> Schema | None:
        """Return the schema for strategic merge patches of a kind; None if it takes JSON merge patches only."""
        if self._uses_openapi and (document := self._document(info)) is not None:
            schema = schema_of_document(document, info.kind.api_version, info.kind.kind)
            if schema is not None:
                return schema
        return built_in_schema(info.kind.api_version, info.kind.kind)

    def _document(self, info: ResourceInfo) -> dict[str, Any] | None:
        path = info.kind.path.lstrip("/")
        if path not in self._documents:
            self._documents[path] = self._read_document(path)
        return self._documents[path]

    def _read_document(self, path: str) -> dict[str, Any] | None:
        session = self._session
        try:
            if self._paths is None:
                self._paths = session.get("/openapi/v3").get("paths") or {}
            url = (self._paths.get(path) or {}).get("serverRelativeURL")
            if not url:
                return None
            target, _, query = url.partition("?")
            parameters = dict(part.partition("=")[::2] for part in query.split("&") if part)
            document: dict[str, Any] = session.get(target, parameters)
        except (ServerError, KubectlError):
            return None
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPatcher:
    """Brings a live object to the state of its configuration."""

    writer: ObjectWriter
    schemas: PatchSchemas
    overwrites: bool = True
    """Whether the configuration wins over changes that others made since it was last applied."""
    deletion: Deletion | None = None
    """How to delete an object that cannot be patched, to create it again; None to report the error."""
    timeout_s: float = 0.0

    def patch_of(self, info: ResourceInfo, live: dict[str, Any], modified: dict[str, Any]) -> tuple[Patch, str]:
        """Return the patch and its media type."""
        from sampan.machinery import patch

        original = decode_last_applied(live)
        schema = self.schemas.schema(info)
        if schema is None:
            return patch.three_way_merge_diff(original, modified, live), MERGE
        strategic = patch.three_way_strategic_diff(original, modified, live, schema)
        if not self.overwrites:
            changes = patch.strategic_diff(original, live, schema)
            if has_conflict(strategic, changes, schema):
                raise KubectlError(_conflict_text(info, original, modified, live, patch=strategic, changes=changes))
        return strategic, STRATEGIC

    def patch_locally(self, info: ResourceInfo, live: dict[str, Any], patch: Patch, media: str) -> dict[str, Any]:
        from sampan.machinery import patch as patches

        schema = self.schemas.schema(info)
        if media == MERGE or schema is None:
            return patches.apply_merge_patch(live, patch)
        return patches.apply_strategic_patch(live, patch, schema)

    def send(
        self, info: ResourceInfo, live: dict[str, Any], modified: dict[str, Any], *, resource_version: str = ""
    ) -> tuple[Patch, dict[str, Any]]:
        """Send the patch to the server, and retry after a conflict. Return the patch and the changed object. If the
        server rejects the patch, the error contains it."""
        patch: Patch = {}
        for attempt in range(_RETRIES + 1):
            patch, media = self.patch_of(info, live, modified)
            if not patch:
                return patch, live
            if resource_version:
                patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": resource_version}}
            try:
                return patch, self.writer.patch(info, patch, media)
            except ServerError as error:
                is_conflict = error.error.reason == "Conflict"
                if is_conflict and attempt < _RETRIES:
                    time.sleep(_RETRY_S if attempt else 0)
                    live = self.writer.session.get(info.path)
                    continue
                if self.deletion is not None and (is_conflict or error.error.reason == "Invalid"):
                    return modified, self._delete_and_create(info, live, modified)
                source = f'"{info.source}": ' if info.source else ""
                raise error.add_context(
                    f"{apply_error_text(info, patch)}{source}error when patching {source[:-2]}"
                ) from None
        return patch, live

    def _delete_and_create(self, info: ResourceInfo, live: dict[str, Any], modified: dict[str, Any]) -> dict[str, Any]:
        assert self.deletion is not None
        session = self.writer.session
        session.send("DELETE", info.path, body=self.deletion.request_body())
        deadline = time.monotonic() + self.timeout_s if self.timeout_s else float("inf")
        while is_present(session, info, ""):
            if time.monotonic() > deadline:
                raise KubectlError("timed out waiting for the condition")
            time.sleep(_RETRY_S)
        try:
            return self.writer.create(info, modified)
        except ServerError as error:
            try:
                return self.writer.create(info, live)
            except ServerError as restore_error:
                raise KubectlError(
                    "An error occurred force-replacing the existing object with the newly provided one:\n\n"
                    f"{error.error.message}.\n\nAdditionally, an error occurred attempting to restore the original "
                    f"object:\n\n{restore_error.error.message}"
                ) from None


def has_conflict(first: Any, second: Any, schema: Schema) -> bool:
    """Whether two strategic merge patches set a field to different values (`MergingMapsHaveConflicts`)."""
    if isinstance(first, dict) and isinstance(second, dict):
        return any(
            has_conflict(first[key], second[key], schema.child(key) or ANY) for key in first.keys() & second.keys()
        )
    if isinstance(first, list) and isinstance(second, list) and "merge" in schema.patch_strategy:
        key, items = schema.patch_key, schema.items
        if not key or items is None:
            return False
        second_items = {item.get(key): item for item in second if isinstance(item, dict)}
        return any(
            has_conflict(item, second_items.get(item.get(key), {}), items) for item in first if isinstance(item, dict)
        )
    return bool(first != second)


def _conflict_text(
    info: ResourceInfo, original: Patch, modified: Patch, live: Patch, *, patch: Patch, changes: Patch
) -> str:
    """Return the error of --overwrite=false: what is applied, and what others changed."""
    source = gotext.quote(info.source)
    versions = "\n\n".join(
        f"{title}:\n{gotext.json_text(mask_patch(info, value))}"
        for title, value in (("original", original), ("modified", modified), ("current", live))
    )
    shown, shown_changes = as_yaml(mask_patch(info, patch)), as_yaml(mask_patch(info, changes))
    return (
        f"{apply_error_text(info, None)}{source}: error when patching {source}: creating patch with:\n{versions}\n\n"
        f"for: patch:\n{shown}\n\nconflicts with changes made from original to current:\n{shown_changes}\n\n"
    )


def apply_error_text(info: ResourceInfo, patch: Patch | None) -> str:
    """Return the beginning of the error of a rejected patch: the patch and the object."""
    kind = info.kind
    group = f"{kind.group}/{kind.version}"
    return (
        f"error when applying patch:\n{gotext.json_text(mask_patch(info, patch)) if patch is not None else ''}\nto:\n"
        f'Resource: "{group}, Resource={kind.plural}", GroupVersionKind: "{group}, Kind={kind.kind}"\n'
        f'Name: "{info.name}", Namespace: "{info.namespace}"\nfor: '
    )


def mask_patch(info: ResourceInfo, patch: Patch) -> Patch:
    """Return a patch for an error message. The data of a Secret are masked, also in the annotation that repeats
    them."""
    if (info.kind.group, info.kind.kind) != ("", "Secret"):
        return patch
    shown = dict(patch)
    for field in ("data", "stringData"):
        if isinstance(shown.get(field), dict):
            shown[field] = dict.fromkeys(shown[field], _MASK)
    annotations = (shown.get("metadata") or {}).get("annotations") or {}
    if LAST_APPLIED in annotations:
        shown["metadata"] = {**shown["metadata"], "annotations": {**annotations, LAST_APPLIED: _MASK}}
    return shown
