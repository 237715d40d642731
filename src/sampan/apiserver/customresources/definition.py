"""A CustomResourceDefinition as the controller needs it: schemas stay undecoded JSON, because they are large."""

from __future__ import annotations

import msgspec

from sampan.api.types.apiextensions_v1 import (
    CustomResourceColumnDefinition,
    CustomResourceConversion,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
    CustomResourceSubresources,
    SelectableField,
)

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
