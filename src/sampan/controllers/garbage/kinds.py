"""Which resources there are, and which of them an owner reference means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sampan.api.resource import Resource
from sampan.machinery.client.discovery import first_of_each

Named = tuple[str, str]
"""apiVersion and kind, as references have them."""

_NEEDED = {"delete", "list", "watch"}
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
"""Too many, and they go by themselves."""


def is_followed(resource: Resource) -> bool:
    """Its objects may own and be owned."""
    return set(resource.verbs) >= _NEEDED and (resource.group, resource.plural) not in _IGNORED


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is served at a time."""

    resources: Mapping[tuple[str, str], Resource] = field(default_factory=dict)
    """By group and plural, each in its preferred version."""
    by_kind: Mapping[Named, Resource] = field(default_factory=dict)
    """What a reference means, in the preferred version whichever it names."""

    @property
    def followed(self) -> Mapping[tuple[str, str], Resource]:
        return {key: found for key, found in self.resources.items() if is_followed(found)}


def catalog_of(served: Iterable[Resource]) -> Catalog:
    """Of resources in every version, the preferred first."""
    served = list(served)
    preferred = {(found.group, found.plural): found for found in first_of_each(served)}
    by_kind: dict[Named, Resource] = {}
    for found in served:
        if "get" in found.verbs:
            by_kind.setdefault((found.api_version, found.kind), preferred[found.group, found.plural])
    return Catalog(preferred, by_kind)


__all__ = ["Catalog", "Named", "catalog_of", "is_followed"]
