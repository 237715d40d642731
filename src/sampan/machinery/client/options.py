"""What may be said with a request, as the query or body of it."""

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
    """Which objects a list, a watch or a deletion of many is about; all of them unless told."""

    namespace: str = ""
    labels: str = ""
    """A label selector as text."""
    fields: str = ""

    def pairs(self) -> Pairs:
        return given(labelSelector=self.labels, fieldSelector=self.fields)


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What may be said with a create, update or patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    """An apply takes fields from their owners."""

    def pairs(self) -> Pairs:
        return given(
            dryRun="All" if self.dry_run else "",
            fieldManager=self.field_manager,
            fieldValidation=self.field_validation,
            force="true" if self.force else "",
        )


PLAIN = Write()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    grace_period_s: int | None = None
    propagation: str = ""
    """Background, Foreground or Orphan; empty for the kind's default."""
    uid: str = ""
    """Only if it is that very object."""
    resource_version: str = ""
    """Only if it has not changed since."""
    dry_run: bool = False

    def body(self) -> bytes:
        """DeleteOptions, empty if they say nothing."""
        said: dict[str, Any] = {}
        if self.grace_period_s is not None:
            said["gracePeriodSeconds"] = self.grace_period_s
        if self.propagation:
            said["propagationPolicy"] = self.propagation
        if required := _filled({"uid": self.uid, "resourceVersion": self.resource_version}):
            said["preconditions"] = required
        if self.dry_run:
            said["dryRun"] = ["All"]
        return json.encode({"kind": "DeleteOptions", "apiVersion": "v1", **said}) if said else b""


AS_EVER = Delete()


def given(**pairs: str) -> Pairs:
    """Those that say something."""
    return [(key, value) for key, value in pairs.items() if value]


def _filled(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


__all__ = ["AS_EVER", "EVERYTHING", "PLAIN", "Delete", "Pairs", "PatchType", "Selection", "Write", "given"]
