"""The resources that a CustomResourceDefinition declares, one for each version, and their behavior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sampan.api.resource import GroupVersionKind, Resource, SelectableField, Subresource
from sampan.api.resources import SCALE
from sampan.api.scheme import version_rank
from sampan.apiserver.customresources.definition import DefinitionVersion, ResourceDefinition
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.custom.custom_schema import CustomSchema
from sampan.apiserver.registry.custom.printer_columns import columns_of
from sampan.apiserver.registry.custom.scale import CustomScaled, ScalePaths
from sampan.apiserver.registry.custom.stored_versions import StoredVersion, ValueConversion
from sampan.apiserver.registry.custom.strategy import CustomStrategy, status_views

_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs in the order in which kube-apiserver lists them for custom resources."""
_CHANGE = ("get", "patch", "update")


class CustomResource(NamedTuple):
    resource: Resource
    behaviour: ResourceBehaviour


def declare_resource(
    definition: ResourceDefinition, version: DefinitionVersion, schema: CustomSchema, conversion: ValueConversion
) -> CustomResource:
    """Return the resource of one version of a definition, whose names are accepted."""
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
        schema=schema,
        declared_list_kind=names.listKind,
    )
    stored_version = StoredVersion(
        kind=names.kind,
        api_version=resource.api_version,
        storage_version=f"{spec.group}/{spec.storage_version}",
        schema=schema,
        conversion=conversion,
        is_only_version=len(spec.versions) == 1,
    )
    return CustomResource(resource, declare_behaviour(definition, version, resource, stored_version))


def declare_behaviour(
    definition: ResourceDefinition, version: DefinitionVersion, resource: Resource, stored_version: StoredVersion
) -> ResourceBehaviour:
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
    return ResourceBehaviour(
        strategy=strategy,
        views=status_views(resource, strategy),
        handlers={"scale": CustomScaled(strategy=strategy, paths=paths).serve} if paths is not None else {},
        deprecation=_deprecation(definition, version) if version.deprecated else "",
        replicas_paths=_replicas_paths(definition),
        stored_version=stored_version,
    )


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
