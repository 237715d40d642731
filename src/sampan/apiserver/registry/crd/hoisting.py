"""Moves what all versions of a CustomResourceDefinition have in common to the top level.

kube-apiserver's internal type does so, and reports validation errors at the fields of the top level.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api.types.apiextensions_v1 import (
    CustomResourceColumnDefinition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
    CustomResourceValidation,
    SelectableField,
)

_FIELDS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


class Hoisted(msgspec.Struct, frozen=True):
    """A spec with the common values of all versions at the top level, and removed from `versions`."""

    versions: Sequence[CustomResourceDefinitionVersion]
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additionalPrinterColumns: Sequence[CustomResourceColumnDefinition] = ()
    selectableFields: Sequence[SelectableField] = ()


def hoisted(spec: CustomResourceDefinitionSpec) -> Hoisted:
    versions = list(spec.versions or ())
    shared: dict[str, Any] = {}
    for field in _FIELDS:
        values = [getattr(version, field) for version in versions]
        if values and all(value == values[0] for value in values):
            shared[field] = values[0]
    blank = CustomResourceDefinitionVersion()
    emptied = {field: getattr(blank, field) for field in shared}
    return Hoisted(versions=[msgspec.structs.replace(version, **emptied) for version in versions], **shared)
