"""The resources that a CustomResourceDefinition declares, one for each version, with their behavior and table columns
(`k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sampan.api.resources.resource import GroupVersionKind, Resource, SelectableField, Subresource
from sampan.api.resources.resource_table import SCALE
from sampan.api.resources.rows import version_rank
from sampan.api.types.apiextensions_v1 import CustomResourceColumnDefinition
from sampan.api.unstructured import Unstructured
from sampan.api.values import ages, times
from sampan.apiserver.customresources.definitions.definition import DefinitionVersion, ResourceDefinition
from sampan.apiserver.customresources.objects.custom_schema import CustomSchema
from sampan.apiserver.customresources.objects.scale import CustomScaled
from sampan.apiserver.customresources.objects.stored_versions import StoredVersion, ValueConversion
from sampan.apiserver.customresources.objects.strategy import CustomStrategy, ScalePaths, status_views
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import NAME
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate, text_of

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs in the order in which kube-apiserver lists them for custom resources."""
_CHANGE = ("get", "patch", "update")


class CustomResource(NamedTuple):
    resource: Resource
    behavior: ResourceBehavior
    handlers: Handlers


def declare_resource(
    definition: ResourceDefinition,
    version: DefinitionVersion,
    schemas: Mapping[str, CustomSchema],
    conversion: ValueConversion,
) -> CustomResource:
    """Return the resource of one version of a definition, whose names are accepted. `schemas` are those of all
    versions, by their names."""
    spec, names = definition.spec, definition.status.acceptedNames
    kind = GroupVersionKind(group=spec.group, version=version.name, kind=names.kind)
    resource = Resource(
        group=spec.group,
        version=version.name,
        kind=names.kind,
        plural=names.plural,
        singular=names.singular,
        namespaced=spec.scope == "Namespaced",
        short_names=tuple(names.shortNames),
        categories=tuple(names.categories),
        verbs=_VERBS,
        subresources=tuple(_subresources(version, names.kind)),
        selectable=tuple(_selectable(field.jsonPath) for field in version.selectableFields),
        storage=kind,
        storage_prefix=f"/registry/{spec.group}/{names.plural}",
        advertised_storage=GroupVersionKind(group=spec.group, version=spec.storage_version, kind=names.kind),
        schema=schemas[version.name],
        declared_list_kind=names.listKind,
    )
    stored_version = StoredVersion(
        kind=names.kind,
        api_version=resource.api_version,
        storage_version=f"{spec.group}/{spec.storage_version}",
        schemas={f"{spec.group}/{name}": schema for name, schema in schemas.items()},
        conversion=conversion,
    )
    return declare_behavior(definition, version, resource, stored_version)


def declare_behavior(
    definition: ResourceDefinition, version: DefinitionVersion, resource: Resource, stored_version: StoredVersion
) -> CustomResource:
    """Return the resource with its behavior and handlers."""
    schema = resource.schema
    assert isinstance(schema, CustomSchema)
    scale = version.subresources.scale if version.subresources is not None else None
    paths = ScalePaths(scale) if scale is not None else None
    strategy = CustomStrategy(
        resource=resource,
        columns=columns_of(version.additionalPrinterColumns, resource.qualified),
        schema=schema,
        scale=paths,
        is_terminating=definition.is_terminating,
    )
    behavior = ResourceBehavior(
        strategy=strategy,
        views=status_views(resource, strategy),
        deprecation=_deprecation(definition, version) if version.deprecated else "",
        replicas_paths=_replicas_paths(definition),
        stored_version=stored_version,
    )
    handlers: Handlers = {"scale": CustomScaled(strategy=strategy, paths=paths).serve} if paths is not None else {}
    return CustomResource(resource, behavior, handlers)


def _subresources(version: DefinitionVersion, kind: str) -> Sequence[Subresource]:
    declared = version.subresources
    if declared is None:
        return ()
    status = Subresource(name="status", verbs=_CHANGE, kind=kind)
    scale = Subresource(name="scale", verbs=_CHANGE, kind=SCALE)
    return [
        subresource
        for subresource, present in ((status, declared.status), (scale, declared.scale))
        if present is not None
    ]


def _selectable(path: str) -> SelectableField:
    label = path.removeprefix(".")
    return SelectableField(label=label, paths=(label,))


def _replicas_paths(definition: ResourceDefinition) -> dict[str, tuple[str, ...]]:
    return {
        f"{definition.spec.group}/{version.name}": ScalePaths(version.subresources.scale).managed_path
        for version in definition.spec.versions
        if version.subresources is not None and version.subresources.scale is not None
    }


def _deprecation(definition: ResourceDefinition, version: DefinitionVersion) -> str:
    """Return the warning of a deprecated version, which by default names a newer version that is not deprecated."""
    if version.deprecationWarning is not None:
        return version.deprecationWarning
    group, kind = definition.spec.group, definition.status.acceptedNames.kind
    text = f"{group}/{version.name} {kind} is deprecated"
    newer = [
        other.name
        for other in definition.spec.versions
        if other.served and not other.deprecated and version_rank(other.name) < version_rank(version.name)
    ]
    return f"{text}; use {group}/{min(newer, key=version_rank)} {kind}" if newer else text


log = logging.getLogger(__name__)

AGE = Column("Age", cells.age, type="date", field="metadata.creationTimestamp")
"""The column of a version that declares none."""


def columns_of(definitions: Sequence[CustomResourceColumnDefinition], resource: str) -> Sequence[Column]:
    """Return the columns of a version, up to the first that has an invalid path."""
    if not definitions:
        return (NAME, AGE)
    columns = [NAME]
    try:
        columns += map(_column, definitions)
    except JsonPathError as error:
        log.warning("custom resource %s has an invalid printer column, showing those before it: %s", resource, error)
    return columns


def _column(definition: CustomResourceColumnDefinition) -> Column:
    path = JsonPathTemplate(f"{{{definition.jsonPath}}}")
    shown = f"Custom resource definition column (in JSONPath format): {definition.jsonPath}"
    return Column(
        definition.name,
        _cell(path, definition.type),
        type=definition.type,
        format=definition.format,
        wide=definition.priority > 0,
        description=definition.description or shown,
        priority=definition.priority,
    )


def _cell(path: JsonPathTemplate, column_type: str) -> Callable[[Any, float], Any]:
    convert: Callable[[Any, float], Any] = _CONVERSIONS.get(column_type, _text)

    def value(obj: Any, now: float) -> Any:
        try:
            results = path.find(obj.to_value() if isinstance(obj, Unstructured) else obj)
        except JsonPathError:  # an index out of bounds, for example
            return None
        selected = results[0][0] if results and results[0] else None
        return convert(selected, now) if selected is not None else None

    return value


def _text(value: Any, now: float) -> str:
    return text_of(value)


def _integer(value: Any, now: float) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, now: float) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        times.parse_time(value)
    except ValueError:
        return "<invalid>"
    return ages.age(value, now)


_CONVERSIONS: dict[str, Callable[[Any, float], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
