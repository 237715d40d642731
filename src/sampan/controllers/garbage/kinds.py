"""The served resources, and the resolution of owner references to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sampan.api.resource import Resource
from sampan.machinery.client.discovery import first_of_each

Named = tuple[str, str]
"""The apiVersion and kind of an owner reference."""

_NEEDED = {"delete", "list", "watch"}
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
"""Events are excluded: there are too many of them, and they expire."""


def is_followed(resource: Resource) -> bool:
    """Whether the objects of the resource are subject to garbage collection."""
    return set(resource.verbs) >= _NEEDED and (resource.group, resource.plural) not in _IGNORED


@dataclass(frozen=True, slots=True)
class Catalog:
    """The resources that were served at one time."""

    resources: Mapping[tuple[str, str], Resource] = field(default_factory=dict)
    """Each resource in its preferred version, by group and plural."""
    by_kind: Mapping[Named, Resource] = field(default_factory=dict)
    """The resource of each kind in any served version, always in its preferred version."""

    @property
    def followed(self) -> Mapping[tuple[str, str], Resource]:
        return {key: resource for key, resource in self.resources.items() if is_followed(resource)}


def catalog_of(served: Iterable[Resource]) -> Catalog:
    """Return the catalog of resources in all versions, with the preferred version first."""
    served = list(served)
    preferred = {(resource.group, resource.plural): resource for resource in first_of_each(served)}
    by_kind: dict[Named, Resource] = {}
    for resource in served:
        if "get" in resource.verbs:
            by_kind.setdefault((resource.api_version, resource.kind), preferred[resource.group, resource.plural])
    return Catalog(preferred, by_kind)
