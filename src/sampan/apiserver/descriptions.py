"""Field descriptions of the published Kubernetes API, if a package that contains them is installed.

The texts are not part of Sampan: they come from `kubernetes-validate` and are loaded when they are first needed
(`kubectl explain`, the column descriptions of a table). That package takes 108 MB, as it has the schemas of many
versions, and is therefore an extra. Without it, `kubectl explain` shows how to install it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from sampan.api.kubernetes_version import DESCRIPTIONS_FILE
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema import schemas
from sampan.api.scheme import type_for

log = logging.getLogger(__name__)

_PACKAGE = "kubernetes_validate"


MISSING = "This server has no descriptions. To install them: pip install kubernetes-validate, or sampan[descriptions]."
"""The description of every definition on a server without the package."""


class DefinitionDescriptions(msgspec.Struct, gc=False):
    """The descriptions of one OpenAPI definition; everything else in it is ignored."""

    description: str = ""
    properties: dict[str, FieldDescription] = {}


class FieldDescription(msgspec.Struct, gc=False):
    description: str = ""


class _DefinitionsFile(msgspec.Struct, rename={"definitions": "$defs"}):
    definitions: dict[str, msgspec.Raw] = {}


@cache
def describe_definition(name: str) -> DefinitionDescriptions:
    """Return the descriptions of a definition such as `io.k8s.api.core.v1.Pod`."""
    texts = _texts()
    if not texts:
        return DefinitionDescriptions(description=MISSING)
    text = texts.get(name)
    return msgspec.json.decode(text, type=DefinitionDescriptions) if text is not None else DefinitionDescriptions()


def are_installed() -> bool:
    return bool(_texts())


def describe_field(kind: GroupVersionKind, path: str) -> str:
    """Return the description of a field of a kind by its path (`spec.nodeName`)."""
    *way, field = path.split(".")
    name = _definition_of(kind)
    if not name and way == ["metadata"]:
        name, way = _META, []
    for step in way:
        name = _definition_below(name, step)
    field_text = describe_definition(name).properties.get(field)
    return field_text.description if field_text is not None else ""


def _definition_of(kind: GroupVersionKind) -> str:
    type = type_for(kind)
    return schemas.schema_of(type).name if type is not None else ""


def _definition_below(name: str, field: str) -> str:
    """Return the name of the definition that a field, or an item of a list field, refers to."""
    child = schemas.definition(name).properties.get(field) if name else None
    if child is None:
        return ""
    return child.ref or (child.items.ref if child.items is not None else "")


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@cache
def _texts() -> Mapping[str, msgspec.Raw]:
    """Return the raw definitions by name. The file is large, so each definition is decoded when it is needed."""
    spec = find_spec(_PACKAGE)  # find_spec does not import the package, which would load much more than its data
    if spec is None or not spec.submodule_search_locations:
        return {}
    try:
        data = Path(spec.submodule_search_locations[0], DESCRIPTIONS_FILE).read_bytes()
        return msgspec.json.decode(data, type=_DefinitionsFile).definitions
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("cannot read the field descriptions in package %s: %s", _PACKAGE, error)
        return {}
