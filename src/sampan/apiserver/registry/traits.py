"""Behavior of kinds that have no module of their own, as data by group and plural name."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of a kind, with the defaults that fit most kinds; `Strategy` documents the common ones."""

    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    return_deleted_object: bool = False
    names: Literal["subdomain", "segment"] = "subdomain"
    """Whether a name is a DNS subdomain or any path segment."""
    generation: tuple[str, ...] = ()
    """The fields whose change increases the generation; none for a kind without generation."""
    status_keeps_metadata: bool = False
    """Whether an update of the status leaves the metadata unchanged."""


_VERSIONED = Traits(allow_unconditional_update=False, status_keeps_metadata=True)

TRAITS: Final[dict[tuple[str, str], Traits]] = {
    ("certificates.k8s.io", "podcertificaterequests"): _VERSIONED,
    ("coordination.k8s.io", "leasecandidates"): Traits(allow_create_on_update=True, allow_unconditional_update=False),
    ("internal.apiserver.k8s.io", "storageversions"): _VERSIONED,
    ("resource.k8s.io", "devicetaintrules"): Traits(
        return_deleted_object=True, generation=("spec",), status_keeps_metadata=True
    ),
    ("resource.k8s.io", "resourcepoolstatusrequests"): Traits(
        allow_unconditional_update=False, return_deleted_object=True, status_keeps_metadata=True
    ),
    ("scheduling.k8s.io", "podgroups"): Traits(status_keeps_metadata=True),
    ("storagemigration.k8s.io", "storageversionmigrations"): _VERSIONED,
}


def traits_of(group: str, plural: str) -> Traits:
    return TRAITS.get((group, plural), _NONE)


_NONE = Traits()
