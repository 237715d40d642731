"""What is known of kinds that have no module of their own: data, by group and plural name."""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The defaults are those of most kinds. See `Strategy` for what each means."""

    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    names: Literal["subdomain", "segment"] = "subdomain"
    """Whether a name is a DNS name or anything that fits in a path."""
    generation: tuple[str, ...] = ()
    """The fields whose change raises the generation; none: it has none."""
    status_keeps_metadata: bool = False
    """A write of the status leaves the metadata as it was."""


_SPEC = ("spec",)
_WEBHOOKS = Traits(unconditional_update=False, generation=("webhooks",))
_POLICY = Traits(unconditional_update=False, generation=_SPEC, status_keeps_metadata=True)
_RETURNED = Traits(returns_deleted=True, status_keeps_metadata=True)
_DEVICES = Traits(returns_deleted=True, generation=_SPEC, status_keeps_metadata=True)
_VERSIONED = Traits(unconditional_update=False, status_keeps_metadata=True)

TRAITS: Final[dict[tuple[str, str], Traits]] = {
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _POLICY,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _POLICY,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _POLICY,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _POLICY,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): Traits(
        unconditional_update=False, generation=_SPEC, status_keeps_metadata=True
    ),
    ("apiregistration.k8s.io", "apiservices"): Traits(
        unconditional_update=False, names="segment", status_keeps_metadata=True
    ),
    ("certificates.k8s.io", "clustertrustbundles"): _VERSIONED,
    ("certificates.k8s.io", "podcertificaterequests"): _VERSIONED,
    ("coordination.k8s.io", "leasecandidates"): Traits(create_on_update=True, unconditional_update=False),
    ("internal.apiserver.k8s.io", "storageversions"): _VERSIONED,
    ("resource.k8s.io", "deviceclasses"): _DEVICES,
    ("resource.k8s.io", "devicetaintrules"): _DEVICES,
    ("resource.k8s.io", "resourceclaims"): _RETURNED,
    ("resource.k8s.io", "resourceclaimtemplates"): _RETURNED,
    ("resource.k8s.io", "resourcepoolstatusrequests"): Traits(
        unconditional_update=False, returns_deleted=True, status_keeps_metadata=True
    ),
    ("resource.k8s.io", "resourceslices"): _DEVICES,
    ("scheduling.k8s.io", "podgroups"): Traits(status_keeps_metadata=True),
    ("storagemigration.k8s.io", "storageversionmigrations"): _VERSIONED,
}


def traits_of(group: str, plural: str) -> Traits:
    return TRAITS.get((group, plural), _NONE)


_NONE = Traits()

__all__ = ["TRAITS", "Traits", "traits_of"]
