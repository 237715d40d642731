"""A CustomResourceDefinition as the controller needs it, and the decisions about its names and conditions.

Schemas stay undecoded JSON, because they are large. The decisions are pure: the new status is returned. The
counterparts are the naming, establishing and API approval controllers of `k8s.io/apiextensions-apiserver`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sampan.api.go_compat import gotext
from sampan.api.types.apiextensions_v1 import (
    CustomResourceColumnDefinition,
    CustomResourceConversion,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
    CustomResourceSubresources,
    SelectableField,
)
from sampan.apiserver.customresources.definitions.validation import APPROVAL_ANNOTATION, approval_state, is_protected
from sampan.apiserver.registry.kinds.customresourcedefinitions import ESTABLISHED

NAMES_ACCEPTED, TERMINATING = "NamesAccepted", "Terminating"
API_APPROVAL = "KubernetesAPIApprovalPolicyConformant"
GROUP, VERSION, KIND = "apiextensions.k8s.io", "v1", "CustomResourceDefinition"
_NO_SCHEMA = msgspec.Raw(b'{"type":"object","x-kubernetes-preserve-unknown-fields":true}')


class DefinitionMetadata(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""
    generation: int = 0
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    finalizers: list[str] = []
    annotations: dict[str, str] = {}


class VersionSchema(msgspec.Struct, gc=False):
    openAPIV3Schema: msgspec.Raw = _NO_SCHEMA


class DefinitionVersion(msgspec.Struct):
    name: str = ""
    served: bool = False
    storage: bool = False
    deprecated: bool = False
    deprecationWarning: str | None = None
    schema: VersionSchema | None = None
    subresources: CustomResourceSubresources | None = None
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = []
    selectableFields: list[SelectableField] = []

    @property
    def schema_json(self) -> bytes:
        return bytes(self.schema.openAPIV3Schema if self.schema is not None else _NO_SCHEMA)


class DefinitionSpec(msgspec.Struct):
    group: str = ""
    scope: str = ""
    names: CustomResourceDefinitionNames = msgspec.field(default_factory=CustomResourceDefinitionNames)
    versions: list[DefinitionVersion] = []
    conversion: CustomResourceConversion | None = None

    @property
    def storage_version(self) -> str:
        return next((version.name for version in self.versions if version.storage), "")


class ResourceDefinition(msgspec.Struct):
    metadata: DefinitionMetadata
    spec: DefinitionSpec
    status: CustomResourceDefinitionStatus = msgspec.field(default_factory=CustomResourceDefinitionStatus)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    def has(self, condition: str) -> bool:
        """Whether a condition is true."""
        return any(entry.type == condition and entry.status == "True" for entry in self.status.conditions or ())


decode_definition = msgspec.json.Decoder(ResourceDefinition).decode
"""Returns the definition in the JSON of a CustomResourceDefinition."""


Conditions = list[CustomResourceDefinitionCondition]


def decide_status(
    definition: ResourceDefinition, others: Iterable[CustomResourceDefinitionNames], now: str
) -> CustomResourceDefinitionStatus:
    """Return the status of a definition: accepted names and conditions. `others` are the accepted names of the other
    definitions of the group."""
    accepted, conflict = _accept_names(definition, list(others))
    conditions = list(definition.status.conditions or ())
    if conflict is None:
        _set(conditions, NAMES_ACCEPTED, True, "NoConflicts", "no conflicts found", now)
    else:
        _set(conditions, NAMES_ACCEPTED, False, *conflict, now)
    if not definition.has(ESTABLISHED):
        if conflict is None:
            _set(conditions, ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted", now)
        else:
            _set(conditions, ESTABLISHED, False, "NotAccepted", "not all names are accepted", now)
    if is_protected(definition.spec.group):
        _set(conditions, API_APPROVAL, *_approval(definition), now)
    return msgspec.structs.replace(definition.status, acceptedNames=accepted, conditions=conditions)


def _accept_names(
    definition: ResourceDefinition, others: list[CustomResourceDefinitionNames]
) -> tuple[CustomResourceDefinitionNames, tuple[str, str] | None]:
    """Return the accepted names, and reason and message of the last conflict, if there is any."""
    resources = {name for names in others for name in (names.plural, names.singular, *names.shortNames)}
    kinds = {name for names in others for name in (names.kind, names.listKind)}
    requested, before = definition.spec.names, definition.status.acceptedNames
    accepted = msgspec.structs.replace(before, categories=list(requested.categories))
    conflict: tuple[str, str] | None = None
    for field, used in (("plural", resources), ("singular", resources), ("shortNames", resources), *_kinds(kinds)):
        requested_value, present = getattr(requested, field), getattr(before, field)
        names = (
            [name for name in requested_value if name not in present]
            if isinstance(requested_value, list)
            else [requested_value]
        )
        conflicting = [name for name in names if name != present and name in used]
        if conflicting:
            message = ", ".join(dict.fromkeys(f"{gotext.quote(name)} is already in use" for name in conflicting))
            conflict = (
                f"{field[0].upper()}{field[1:]}Conflict",
                f"[{message}]" if len(set(conflicting)) > 1 else message,
            )
        else:
            setattr(accepted, field, requested_value)
    return accepted, conflict


def _kinds(used: set[str]) -> list[tuple[str, set[str]]]:
    return [("kind", used), ("listKind", used)]


def _approval(definition: ResourceDefinition) -> tuple[bool, str, str]:
    """Return status, reason and message of the condition about the API approval of a protected group."""
    text = definition.metadata.annotations.get(APPROVAL_ANNOTATION, "")
    state = approval_state(text)
    if state == "approved":
        return True, "ApprovedAnnotation", f"approved in {text}"
    if state == "bypassed":
        return False, "UnapprovedAnnotation", f"not approved: {gotext.quote(text)}"
    reason = "MissingAnnotation" if state == "missing" else "InvalidAnnotation"
    why = f'protected groups must have approval annotation "{APPROVAL_ANNOTATION}"'
    return False, reason, f"{why}, see https://github.com/kubernetes/enhancements/pull/1111"


def _set(conditions: Conditions, name: str, is_true: bool, reason: str, message: str, now: str) -> None:
    set_condition(conditions, name, "True" if is_true else "False", reason, message, now)


def set_condition(conditions: Conditions, name: str, status: str, reason: str, message: str, now: str) -> None:
    """Set a condition in the list, in place; the transition time changes with the status only."""
    for index, present in enumerate(conditions):
        if present.type == name:
            since = present.lastTransitionTime if present.status == status else now
            conditions[index] = msgspec.structs.replace(
                present, status=status, lastTransitionTime=since, reason=reason, message=message
            )
            return
    conditions.append(
        CustomResourceDefinitionCondition(
            type=name, status=status, lastTransitionTime=now, reason=reason, message=message
        )
    )
