"""Discovery documents of other servers: the check of their contents, and the conversion to the aggregated format.
Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sampan.api.types.apidiscovery_v2 import (
    APIResourceDiscovery,
    APISubresourceDiscovery,
    APIVersionDiscovery,
)
from sampan.api.types.meta_v1 import APIResource, APIResourceList, GroupVersionKind


class InvalidDiscovery(ValueError):
    """A discovery document is no valid APIResourceList."""


def resource_list(body: bytes) -> APIResourceList:
    """Return the resources in the discovery document of a group version. Raise `InvalidDiscovery`."""
    try:
        return msgspec.json.decode(body, type=APIResourceList)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidDiscovery(str(error)) from None


def version_discovery(version: str, resources: Sequence[APIResource], *, is_fresh: bool) -> APIVersionDiscovery:
    """Return the resources of a version in the aggregated format."""
    by_name: dict[str, APIResourceDiscovery] = {}
    for resource in resources:
        name, _, subresource = resource.name.partition("/")
        if not subresource:
            by_name[name] = _resource(resource)
    for resource in resources:
        name, _, subresource = resource.name.partition("/")
        if subresource and name in by_name:
            by_name[name].subresources.append(
                APISubresourceDiscovery(
                    subresource=subresource, responseKind=_kind(resource), verbs=list(resource.verbs or ())
                )
            )
    return APIVersionDiscovery(
        version=version, resources=list(by_name.values()), freshness="Current" if is_fresh else "Stale"
    )


def _resource(resource: APIResource) -> APIResourceDiscovery:
    return APIResourceDiscovery(
        resource=resource.name,
        responseKind=_kind(resource),
        scope="Namespaced" if resource.namespaced else "Cluster",
        singularResource=resource.singularName,
        verbs=list(resource.verbs or ()),
        shortNames=list(resource.shortNames),
        categories=list(resource.categories),
        subresources=[],
    )


def _kind(resource: APIResource) -> GroupVersionKind:
    return GroupVersionKind(group=resource.group, version=resource.version, kind=resource.kind)
