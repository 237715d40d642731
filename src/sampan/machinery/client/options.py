"""Options of requests, as query parameters or body."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sampan.api.codec import json

Pairs = list[tuple[str, str]]


class PatchType(Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The objects that a list, watch or collection delete applies to; all of them by default."""

    namespace: str = ""
    labels: str = ""
    """The label selector of the objects, in its text form."""
    fields: str = ""

    def pairs(self) -> Pairs:
        return non_empty(labelSelector=self.labels, fieldSelector=self.fields)


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParameters:
    """Options of create, update and patch requests."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    """Whether an apply takes over fields that other managers own."""

    def pairs(self) -> Pairs:
        return non_empty(
            dryRun="All" if self.dry_run else "",
            fieldManager=self.field_manager,
            fieldValidation=self.field_validation,
            force="true" if self.force else "",
        )


DEFAULT_WRITE_PARAMETERS = WriteParameters()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteParameters:
    grace_period_s: int | None = None
    propagation: str = ""
    """Background, Foreground or Orphan; empty for the resource's default."""
    uid: str = ""
    """A precondition: the object must have this UID."""
    resource_version: str = ""
    """A precondition: the object must have this resource version."""
    dry_run: bool = False

    def body(self) -> bytes:
        """Return the encoded DeleteOptions, empty if all options have their defaults."""
        options: dict[str, Any] = {}
        if self.grace_period_s is not None:
            options["gracePeriodSeconds"] = self.grace_period_s
        if self.propagation:
            options["propagationPolicy"] = self.propagation
        if required := _drop_empty({"uid": self.uid, "resourceVersion": self.resource_version}):
            options["preconditions"] = required
        if self.dry_run:
            options["dryRun"] = ["All"]
        return json.encode({"kind": "DeleteOptions", "apiVersion": "v1", **options}) if options else b""


DEFAULT_DELETE_PARAMETERS = DeleteParameters()


def non_empty(**pairs: str) -> Pairs:
    """Return the pairs with a non-empty value."""
    return [(key, value) for key, value in pairs.items() if value]


def _drop_empty(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
