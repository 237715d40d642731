"""What is known of kinds that have no module of their own: data, by group and plural name."""

from dataclasses import dataclass
from typing import Final, Literal

from sampan.apiserver.registry.deletion import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The defaults are those of most kinds. See `Strategy` for what each means."""

    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    default_policy: Policy = "Background"
    delete_warning: str = ""
    """Told when a DELETE names no policy."""
    names: Literal["subdomain", "segment"] = "subdomain"
    """Whether a name is a DNS name or anything that fits in a path."""
    generation: tuple[str, ...] = ()
    """The fields whose change raises the generation; none: it has none. `annotations` are those of the metadata."""
    starts_at: int = 1
    """The generation of a new object."""
    status_keeps: Literal["", "labels", "metadata"] = ""
    """What of the metadata a write of the status leaves as it was."""


_SPEC = ("spec",)
_JOBS_ORPHAN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_WEBHOOKS = Traits(unconditional_update=False, generation=("webhooks",))
_POLICY = Traits(unconditional_update=False, generation=_SPEC, status_keeps="metadata")
_RBAC = Traits(create_on_update=True, names="segment")
_ROUND = Traits(generation=_SPEC)
_RETURNED = Traits(returns_deleted=True, status_keeps="metadata")
_DEVICES = Traits(returns_deleted=True, generation=_SPEC, status_keeps="metadata")
_FLOWS = Traits(generation=_SPEC, status_keeps="metadata")
_VERSIONED = Traits(unconditional_update=False, status_keeps="metadata")

TRAITS: Final[dict[tuple[str, str], Traits]] = {
    ("", "persistentvolumeclaims"): Traits(returns_deleted=True),
    ("", "persistentvolumes"): Traits(returns_deleted=True),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _POLICY,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _POLICY,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _POLICY,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _POLICY,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): Traits(
        unconditional_update=False, generation=_SPEC, status_keeps="metadata"
    ),
    ("apiregistration.k8s.io", "apiservices"): Traits(
        unconditional_update=False, names="segment", status_keeps="metadata"
    ),
    ("apps", "daemonsets"): _ROUND,
    ("apps", "deployments"): Traits(generation=("spec", "annotations"), status_keeps="labels"),
    ("apps", "replicasets"): _ROUND,
    ("apps", "statefulsets"): _ROUND,
    ("batch", "cronjobs"): _ROUND,
    ("batch", "jobs"): Traits(default_policy="Orphan", delete_warning=_JOBS_ORPHAN, generation=_SPEC),
    ("certificates.k8s.io", "clustertrustbundles"): _VERSIONED,
    ("certificates.k8s.io", "podcertificaterequests"): _VERSIONED,
    ("coordination.k8s.io", "leasecandidates"): Traits(create_on_update=True, unconditional_update=False),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _FLOWS,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _FLOWS,
    ("internal.apiserver.k8s.io", "storageversions"): _VERSIONED,
    ("networking.k8s.io", "ingressclasses"): _ROUND,
    ("networking.k8s.io", "ingresses"): _ROUND,
    ("networking.k8s.io", "networkpolicies"): _ROUND,
    ("node.k8s.io", "runtimeclasses"): Traits(create_on_update=True, unconditional_update=False),
    ("policy", "poddisruptionbudgets"): Traits(unconditional_update=False, generation=_SPEC),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _RBAC,
    ("rbac.authorization.k8s.io", "clusterroles"): _RBAC,
    ("rbac.authorization.k8s.io", "rolebindings"): _RBAC,
    ("rbac.authorization.k8s.io", "roles"): _RBAC,
    ("resource.k8s.io", "deviceclasses"): _DEVICES,
    ("resource.k8s.io", "devicetaintrules"): _DEVICES,
    ("resource.k8s.io", "resourceclaims"): _RETURNED,
    ("resource.k8s.io", "resourceclaimtemplates"): _RETURNED,
    ("resource.k8s.io", "resourcepoolstatusrequests"): Traits(
        unconditional_update=False, returns_deleted=True, status_keeps="metadata"
    ),
    ("resource.k8s.io", "resourceslices"): _DEVICES,
    ("scheduling.k8s.io", "podgroups"): Traits(status_keeps="metadata"),
    ("storage.k8s.io", "csidrivers"): Traits(
        unconditional_update=False, returns_deleted=True, generation=_SPEC, starts_at=0
    ),
    ("storage.k8s.io", "csinodes"): Traits(unconditional_update=False, returns_deleted=True),
    ("storage.k8s.io", "csistoragecapacities"): Traits(unconditional_update=False),
    ("storage.k8s.io", "storageclasses"): _RETURNED,
    ("storage.k8s.io", "volumeattachments"): Traits(
        unconditional_update=False, returns_deleted=True, status_keeps="metadata"
    ),
    ("storage.k8s.io", "volumeattributesclasses"): _RETURNED,
    ("storagemigration.k8s.io", "storageversionmigrations"): _VERSIONED,
}


def traits_of(group: str, plural: str) -> Traits:
    return TRAITS.get((group, plural), _NONE)


_NONE = Traits()

__all__ = ["TRAITS", "Traits", "traits_of"]
