"""Every built-in resource, one row each, with the group versions they are served at.

`SERVED` is what a server of v1.36 serves when told nothing; `OPTIONAL` versions are switched on with --runtime-config.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sampan.api.resource import STANDARD_VERBS, GroupVersionKind, Resource, SelectableField, Subresource

CREATE = ("create",)
CHANGE = ("get", "patch", "update")
CONNECT = ("create", "get")
PROXY = ("create", "delete", "get", "patch", "update")

SCALE = GroupVersionKind(group="autoscaling", version="v1", kind="Scale")
EVICTION = GroupVersionKind(group="policy", version="v1", kind="Eviction")
TOKEN_REQUEST = GroupVersionKind(group="authentication.k8s.io", version="v1", kind="TokenRequest")
CORE_EVENT = GroupVersionKind(group="", version="v1", kind="Event")

SPECIAL_PREFIXES = {
    "": {
        "replicationcontrollers": "/registry/controllers",
        "endpoints": "/registry/services/endpoints",
        "nodes": "/registry/minions",
        "services": "/registry/services/specs",
    },
    "networking.k8s.io": {"ingresses": "/registry/ingress"},
    "apiregistration.k8s.io": {"apiservices": "/registry/apiregistration.k8s.io/apiservices"},
    "apiextensions.k8s.io": {
        "customresourcedefinitions": "/registry/apiextensions.k8s.io/customresourcedefinitions",
    },
}
"""Keys in the store that do not follow from the plural name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVersion:
    """A version of a group: its resources in order of name, and its place among the others."""

    group: str
    version: str
    group_priority: int
    """Higher comes first in lists of groups; equal ones by name."""
    version_priority: int
    resources: tuple[Resource, ...]


def _row(
    kind: str,
    plural: str = "",
    *,
    short: str = "",
    category: str = "",
    cluster: bool = False,
    verbs: Iterable[str] = STANDARD_VERBS,
    sub: Iterable[Subresource] = (),
    select: Iterable[SelectableField] = (),
    stored: bool | str | GroupVersionKind = True,
    advertised: str = "",
) -> Resource:
    """A resource without its group and version, which `_group` fills in. `stored` may name another version."""
    verbs = tuple(verbs)
    stored = stored if "get" in verbs else False
    return Resource(
        group="",
        version="",
        kind=kind,
        plural=plural or kind.lower() + "s",
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=tuple(category.split()),
        verbs=verbs,
        subresources=tuple(_with_kind(s, kind) for s in sub),
        selectable=tuple(select),
        storage=_storage(kind, stored),
        advertised_storage=_storage(kind, advertised),
    )


def _storage(kind: str, stored: bool | str | GroupVersionKind) -> GroupVersionKind | None:
    if isinstance(stored, GroupVersionKind):
        return stored
    if not stored:
        return None
    return GroupVersionKind(group="", version="" if stored is True else stored, kind=kind)


def _with_kind(sub: Subresource, kind: str) -> Subresource:
    return replace(sub, kind=sub.kind or kind)


def _sub(name: str, verbs: tuple[str, ...] = CHANGE, kind: GroupVersionKind | str = "") -> Subresource:
    """A subresource; without a kind it takes and gives the resource itself."""
    return Subresource(name=name, verbs=verbs, kind=kind)


def _field(label: str, *paths: str, default: str = "") -> SelectableField:
    return SelectableField(label=label, paths=paths or (label,), default=default)


def _group(group: str, version: str, priority: tuple[int, int], *rows: Resource) -> GroupVersion:
    return GroupVersion(
        group=group,
        version=version,
        group_priority=priority[0],
        version_priority=priority[1],
        resources=tuple(_placed(group, version, row) for row in rows),
    )


def _placed(group: str, version: str, row: Resource) -> Resource:
    placed = replace(row, group=group, version=version)
    if row.storage is None:
        return placed
    storage, prefix = row.storage, SPECIAL_PREFIXES.get(group, {}).get(row.plural, f"/registry/{row.plural}")
    if storage is not CORE_EVENT:
        storage = replace(storage, group=group, version=storage.version or version)
    advertised = row.advertised_storage and replace(row.advertised_storage, group=group)
    return replace(placed, storage=storage, storage_prefix=prefix, advertised_storage=advertised)


STATUS = _sub("status")
SCALED = _sub("scale", kind=SCALE)
EVENT_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
POD_FIELDS = (
    _field("spec.nodeName"),
    _field("spec.host", "spec.nodeName"),
    _field("spec.restartPolicy"),
    _field("spec.schedulerName"),
    _field("spec.serviceAccountName"),
    _field("spec.hostNetwork", default="false"),
    _field("status.phase"),
    _field("status.podIP"),
    SelectableField(label="status.podIPs", paths=()),
    _field("status.nominatedNodeName"),
)
SIGNER = _field("spec.signerName")
SLICE_FIELDS = (_field("spec.nodeName"), _field("spec.driver"))

CORE_V1 = _group(
    "",
    "v1",
    (18000, 1),
    _row("Binding", verbs=CREATE),
    _row("ComponentStatus", "componentstatuses", short="cs", cluster=True, verbs=("get", "list"), stored=False),
    _row("ConfigMap", short="cm"),
    _row("Endpoints", "endpoints", short="ep"),
    _row(
        "Event",
        short="ev",
        select=(
            *(_field(f"involvedObject.{name}") for name in EVENT_OBJECT),
            _field("reason"),
            _field("reportingComponent"),
            _field("source", "source.component", "reportingComponent"),
            _field("type"),
        ),
        stored=CORE_EVENT,
    ),
    _row("LimitRange", short="limits"),
    _row(
        "Namespace",
        short="ns",
        cluster=True,
        verbs=tuple(verb for verb in STANDARD_VERBS if verb != "deletecollection"),
        sub=(_sub("finalize", ("update",)), STATUS),
        select=(_field("status.phase"),),
    ),
    _row(
        "Node",
        short="no",
        cluster=True,
        sub=(_sub("proxy", PROXY, "NodeProxyOptions"), STATUS),
        select=(_field("spec.unschedulable", default="false"),),
    ),
    _row("PersistentVolumeClaim", short="pvc", sub=(STATUS,)),
    _row("PersistentVolume", short="pv", cluster=True, sub=(STATUS,)),
    _row(
        "Pod",
        short="po",
        category="all",
        sub=(
            _sub("attach", CONNECT, "PodAttachOptions"),
            _sub("binding", CREATE, "Binding"),
            _sub("ephemeralcontainers"),
            _sub("eviction", CREATE, EVICTION),
            _sub("exec", CONNECT, "PodExecOptions"),
            _sub("log", ("get",)),
            _sub("portforward", CONNECT, "PodPortForwardOptions"),
            _sub("proxy", PROXY, "PodProxyOptions"),
            _sub("resize"),
            STATUS,
        ),
        select=POD_FIELDS,
    ),
    _row("PodTemplate"),
    _row(
        "ReplicationController",
        short="rc",
        category="all",
        sub=(SCALED, STATUS),
        select=(_field("status.replicas", default="0"),),
    ),
    _row("ResourceQuota", short="quota", sub=(STATUS,)),
    _row("Secret", select=(_field("type"),)),
    _row("ServiceAccount", short="sa", sub=(_sub("token", CREATE, TOKEN_REQUEST),)),
    _row(
        "Service",
        short="svc",
        category="all",
        sub=(_sub("proxy", PROXY, "ServiceProxyOptions"), STATUS),
        select=(_field("spec.clusterIP"), _field("spec.type")),
    ),
)

SERVED = (
    CORE_V1,
    _group(
        "apiregistration.k8s.io",
        "v1",
        (20000, 15),
        _row("APIService", category="api-extensions", cluster=True, sub=(STATUS,)),
    ),
    _group(
        "apps",
        "v1",
        (17800, 15),
        _row("ControllerRevision"),
        _row("DaemonSet", short="ds", category="all", sub=(STATUS,)),
        _row("Deployment", short="deploy", category="all", sub=(SCALED, STATUS)),
        _row("ReplicaSet", short="rs", category="all", sub=(SCALED, STATUS)),
        _row("StatefulSet", short="sts", category="all", sub=(SCALED, STATUS)),
    ),
    _group(
        "events.k8s.io",
        "v1",
        (17750, 15),
        _row(
            "Event",
            short="ev",
            select=(
                *(_field(f"regarding.{name}", f"involvedObject.{name}") for name in EVENT_OBJECT),
                _field("reason"),
                _field("reportingController", "reportingComponent"),
                _field("type"),
            ),
            stored=CORE_EVENT,
        ),
    ),
    _group(
        "authentication.k8s.io",
        "v1",
        (17700, 15),
        _row("SelfSubjectReview", cluster=True, verbs=CREATE),
        _row("TokenReview", cluster=True, verbs=CREATE),
    ),
    _group(
        "authorization.k8s.io",
        "v1",
        (17600, 15),
        _row("LocalSubjectAccessReview", verbs=CREATE),
        _row("SelfSubjectAccessReview", cluster=True, verbs=CREATE),
        _row("SelfSubjectRulesReview", cluster=True, verbs=CREATE),
        _row("SubjectAccessReview", cluster=True, verbs=CREATE),
    ),
    _group(
        "autoscaling",
        "v2",
        (17500, 30),
        _row("HorizontalPodAutoscaler", short="hpa", category="all", sub=(STATUS,)),
    ),
    _group(
        "autoscaling",
        "v1",
        (17500, 15),
        _row("HorizontalPodAutoscaler", short="hpa", category="all", sub=(STATUS,), stored="v2"),
    ),
    _group(
        "batch",
        "v1",
        (17400, 15),
        _row("CronJob", short="cj", category="all", sub=(STATUS,)),
        _row(
            "Job",
            category="all",
            sub=(STATUS,),
            select=(_field("status.successful", "status.succeeded", default="0"),),
        ),
    ),
    _group(
        "certificates.k8s.io",
        "v1",
        (17300, 15),
        _row(
            "CertificateSigningRequest",
            short="csr",
            cluster=True,
            sub=(_sub("approval"), STATUS),
            select=(SIGNER,),
        ),
    ),
    _group(
        "networking.k8s.io",
        "v1",
        (17200, 15),
        _row("IngressClass", "ingressclasses", cluster=True),
        _row("Ingress", "ingresses", short="ing", sub=(STATUS,)),
        _row("IPAddress", "ipaddresses", short="ip", cluster=True),
        _row("NetworkPolicy", "networkpolicies", short="netpol"),
        _row("ServiceCIDR", cluster=True, sub=(STATUS,)),
    ),
    _group("policy", "v1", (17100, 15), _row("PodDisruptionBudget", short="pdb", sub=(STATUS,))),
    _group(
        "rbac.authorization.k8s.io",
        "v1",
        (17000, 15),
        _row("ClusterRoleBinding", cluster=True),
        _row("ClusterRole", cluster=True),
        _row("RoleBinding"),
        _row("Role"),
    ),
    _group(
        "storage.k8s.io",
        "v1",
        (16800, 15),
        _row("CSIDriver", cluster=True),
        _row("CSINode", cluster=True),
        _row("CSIStorageCapacity", "csistoragecapacities"),
        _row("StorageClass", "storageclasses", short="sc", cluster=True),
        _row("VolumeAttachment", cluster=True, sub=(STATUS,)),
        _row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True),
    ),
    _group(
        "admissionregistration.k8s.io",
        "v1",
        (16700, 15),
        _row(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            category="api-extensions",
            cluster=True,
            advertised="v1beta1",
        ),
        _row("MutatingAdmissionPolicyBinding", category="api-extensions", cluster=True, advertised="v1beta1"),
        _row("MutatingWebhookConfiguration", category="api-extensions", cluster=True),
        _row(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            category="api-extensions",
            cluster=True,
            sub=(STATUS,),
        ),
        _row("ValidatingAdmissionPolicyBinding", category="api-extensions", cluster=True),
        _row("ValidatingWebhookConfiguration", category="api-extensions", cluster=True),
    ),
    _group(
        "apiextensions.k8s.io",
        "v1",
        (16700, 15),
        _row(
            "CustomResourceDefinition",
            short="crd crds",
            category="api-extensions",
            cluster=True,
            sub=(STATUS,),
            advertised="v1beta1",
        ),
    ),
    _group(
        "scheduling.k8s.io",
        "v1",
        (16600, 15),
        _row("PriorityClass", "priorityclasses", short="pc", cluster=True),
    ),
    _group("coordination.k8s.io", "v1", (16500, 15), _row("Lease")),
    _group("node.k8s.io", "v1", (16300, 15), _row("RuntimeClass", "runtimeclasses", cluster=True)),
    _group("discovery.k8s.io", "v1", (16200, 15), _row("EndpointSlice")),
    _group(
        "resource.k8s.io",
        "v1",
        (16200, 21),
        _row("DeviceClass", "deviceclasses", cluster=True),
        _row("ResourceClaim", sub=(STATUS,)),
        _row("ResourceClaimTemplate"),
        _row("ResourceSlice", cluster=True, select=SLICE_FIELDS),
    ),
    _group(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        (16100, 21),
        _row("FlowSchema", cluster=True, sub=(STATUS,)),
        _row("PriorityLevelConfiguration", cluster=True, sub=(STATUS,)),
    ),
)

OPTIONAL = (
    _group(
        "certificates.k8s.io",
        "v1beta1",
        (17300, 9),
        _row("ClusterTrustBundle", cluster=True, select=(SIGNER,)),
        _row(
            "PodCertificateRequest",
            sub=(STATUS,),
            select=(SIGNER, _field("spec.podName"), _field("spec.nodeName")),
        ),
    ),
    _group(
        "certificates.k8s.io",
        "v1alpha1",
        (17300, 1),
        _row("ClusterTrustBundle", cluster=True, select=(SIGNER,), stored="v1beta1"),
    ),
    _group(
        "networking.k8s.io",
        "v1beta1",
        (17200, 9),
        _row("IPAddress", "ipaddresses", short="ip", cluster=True, stored="v1"),
        _row("ServiceCIDR", cluster=True, sub=(STATUS,), stored="v1"),
    ),
    _group(
        "storage.k8s.io",
        "v1beta1",
        (16800, 9),
        _row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True, stored="v1"),
    ),
    *(
        _group(
            "admissionregistration.k8s.io",
            version,
            (16700, priority),
            _row(
                "MutatingAdmissionPolicy",
                "mutatingadmissionpolicies",
                category="api-extensions",
                cluster=True,
                stored="v1",
                advertised="v1beta1",
            ),
            _row(
                "MutatingAdmissionPolicyBinding",
                category="api-extensions",
                cluster=True,
                stored="v1",
                advertised="v1beta1",
            ),
        )
        for version, priority in (("v1beta1", 12), ("v1alpha1", 9))
    ),
    _group(
        "scheduling.k8s.io",
        "v1alpha2",
        (16600, 2),
        _row("PodGroup", sub=(STATUS,)),
        _row("Workload"),
    ),
    _group("coordination.k8s.io", "v1beta1", (16500, 13), _row("LeaseCandidate")),
    _group("coordination.k8s.io", "v1alpha2", (16500, 12), _row("LeaseCandidate", stored="v1beta1")),
    *(
        _group(
            "resource.k8s.io",
            version,
            (16200, priority),
            _row("DeviceClass", "deviceclasses", cluster=True, stored="v1"),
            *(
                [_row("DeviceTaintRule", cluster=True, sub=(STATUS,), stored="v1alpha3")]
                if version == "v1beta2"
                else []
            ),
            _row("ResourceClaim", sub=(STATUS,), stored="v1"),
            _row("ResourceClaimTemplate", stored="v1"),
            _row("ResourceSlice", cluster=True, select=SLICE_FIELDS, stored="v1"),
        )
        for version, priority in (("v1beta2", 15), ("v1beta1", 9))
    ),
    _group(
        "resource.k8s.io",
        "v1alpha3",
        (16200, 1),
        _row("DeviceTaintRule", cluster=True, sub=(STATUS,)),
        _row("ResourcePoolStatusRequest", cluster=True, sub=(STATUS,)),
    ),
    _group("internal.apiserver.k8s.io", "v1alpha1", (16000, 9), _row("StorageVersion", cluster=True, sub=(STATUS,))),
    _group(
        "storagemigration.k8s.io",
        "v1beta1",
        (15800, 9),
        _row("StorageVersionMigration", cluster=True, sub=(STATUS,)),
    ),
)

__all__ = ["OPTIONAL", "SERVED", "GroupVersion"]
