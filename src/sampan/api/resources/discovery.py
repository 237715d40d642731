"""The entries of both discovery formats, derived from the resources."""

from collections.abc import Iterable

from sampan.api.resources.resource import Resource, Subresource
from sampan.api.types.apidiscovery_v2 import APIResourceDiscovery, APISubresourceDiscovery, APIVersionDiscovery
from sampan.api.types.meta_v1 import APIResource, GroupVersionKind


def api_resources(resources: Iterable[Resource]) -> list[APIResource]:
    """Return the entries of an APIResourceList: each resource, followed by its subresources."""
    return [entry for resource in resources for entry in _entries(resource)]


def _entries(resource: Resource) -> Iterable[APIResource]:
    yield APIResource(
        name=resource.plural,
        singularName=resource.singular,
        namespaced=resource.namespaced,
        kind=resource.kind,
        verbs=list(resource.verbs),
        shortNames=list(resource.short_names),
        categories=list(resource.categories),
        storageVersionHash=resource.storage_version_hash,
    )
    for subresource in resource.subresources:
        yield _subresource_entry(resource, subresource)


def _subresource_entry(resource: Resource, subresource: Subresource) -> APIResource:
    kind = resource.kind_of(subresource)
    foreign = (kind.group, kind.version) != (resource.group, resource.version)
    return APIResource(
        name=f"{resource.plural}/{subresource.name}",
        namespaced=resource.namespaced,
        group=kind.group if foreign else "",
        version=kind.version if foreign else "",
        kind=kind.kind,
        verbs=list(subresource.verbs),
    )


def version_discovery(version: str, resources: Iterable[Resource]) -> APIVersionDiscovery:
    """Return one version in the aggregated format."""
    return APIVersionDiscovery(
        version=version, resources=[_describe_resource(resource) for resource in resources], freshness="Current"
    )


def _describe_resource(resource: Resource) -> APIResourceDiscovery:
    return APIResourceDiscovery(
        resource=resource.plural,
        responseKind=GroupVersionKind(kind=resource.kind),
        scope="Namespaced" if resource.namespaced else "Cluster",
        singularResource=resource.singular,
        verbs=list(resource.verbs),
        shortNames=list(resource.short_names),
        categories=list(resource.categories),
        subresources=[_describe_subresource(resource, sub) for sub in resource.subresources],
    )


def _describe_subresource(resource: Resource, subresource: Subresource) -> APISubresourceDiscovery:
    kind = resource.kind_of(subresource)
    shown = GroupVersionKind(kind=kind.kind)
    if (kind.group, kind.version) != (resource.group, resource.version):
        shown = GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind)
    return APISubresourceDiscovery(subresource=subresource.name, responseKind=shown, verbs=list(subresource.verbs))
