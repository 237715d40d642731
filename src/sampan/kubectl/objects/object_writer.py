"""Requests that create and change objects (`cli-runtime/pkg/resource.Helper`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.session import Session
from sampan.kubectl.command import command_line_text
from sampan.kubectl.errors import ServerError
from sampan.kubectl.objects.targets import ResourceInfo

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
CHANGE_CAUSE = "kubernetes.io/change-cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWriter:
    """Sends changes with the field manager and the options of a command. The caller handles a client-side dry run."""

    session: Session
    field_manager: str = ""
    dry_run: str = "none"
    validation: str = ""

    def create(self, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any]:
        """Create an object. Its resourceVersion, if it has one, is dropped."""
        metadata = value.get("metadata") or {}
        if metadata.get("resourceVersion"):
            metadata_without_version = {key: part for key, part in metadata.items() if key != "resourceVersion"}
            value = {**value, "metadata": metadata_without_version}
        return self._send("POST", info.collection, value)

    def patch(
        self, info: ResourceInfo, patch: Any, media_type: str, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._send("PATCH", info.path, patch, media_type, query)

    def replace(self, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any]:
        """Replace an object. If the new object has no resourceVersion, use that of the stored one."""
        metadata = value.get("metadata") or {}
        if not metadata.get("resourceVersion"):
            try:
                version = self.session.get(info.path)["metadata"].get("resourceVersion")
            except ServerError:
                version = None  # The PUT request below fails with the error of the server.
            if version:
                value = {**value, "metadata": {**metadata, "resourceVersion": version}}
        return self._send("PUT", info.path, value)

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        parameters = {"fieldManager": self.field_manager, "fieldValidation": self.validation}
        parameters |= {"dryRun": "All"} if self.dry_run == "server" else {}
        parameters = {key: text for key, text in parameters.items() if text}
        result: dict[str, Any] = self.session.send(
            method, path, {**parameters, **(query or {})}, body=body, content_type=content_type
        )
        return result


def with_change_cause(value: dict[str, Any], is_recorded: bool) -> dict[str, Any]:
    """Return the object with the command line as its change cause if --record is set."""
    if not is_recorded:
        return value
    metadata = value.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), CHANGE_CAUSE: command_line_text()}
    return {**value, "metadata": {**metadata, "annotations": annotations}}


def record_change(value: dict[str, Any], is_recorded: bool) -> None:
    """Store the command line in an object, in place, if --record is set."""
    if is_recorded:
        metadata = value.setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), CHANGE_CAUSE: command_line_text()}
