"""Every built-in resource that some supported level serves, one row for each version, with its life cycle.

Stable versions are served by default, beta and alpha versions if --runtime-config enables them. In addition the level
must be in the life cycle of the row, and its feature gate on: `runtime_config` selects. The storage version of a
resource is the newest that the minimal compatibility version knows, unless `STORED_AS` names one.
"""

from sampan.api.resources.resource import STANDARD_VERBS, GroupVersionKind, SelectableField
from sampan.api.resources.rows import CORE_EVENT, GroupVersion, declare_version, field, row, sub

CREATE = ("create",)
CONNECT = ("create", "get")
PROXY = ("create", "delete", "get", "patch", "update")

SCALE = GroupVersionKind(group="autoscaling", version="v1", kind="Scale")
EVICTION = GroupVersionKind(group="policy", version="v1", kind="Eviction")
TOKEN_REQUEST = GroupVersionKind(group="authentication.k8s.io", version="v1", kind="TokenRequest")

STATUS = sub("status")
SCALED = sub("scale", kind=SCALE)
EVENT_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
POD_FIELDS = (
    field("spec.nodeName"),
    field("spec.host", "spec.nodeName"),
    field("spec.restartPolicy"),
    field("spec.schedulerName"),
    field("spec.serviceAccountName"),
    field("spec.hostNetwork", default="false"),
    field("status.phase"),
    field("status.podIP"),
    SelectableField(label="status.podIPs", paths=()),
    field("status.nominatedNodeName"),
)
SIGNER = field("spec.signerName")
SLICE_FIELDS = (field("spec.nodeName"), field("spec.driver"), field("spec.pool.name"))
REQUEST_FIELDS = (SIGNER, field("spec.podName"), field("spec.nodeName"))

CORE_V1 = declare_version(
    "",
    "v1",
    (18000, 1),
    row("Binding", verbs=CREATE),
    row("ComponentStatus", "componentstatuses", short="cs", cluster=True, verbs=("get", "list"), stored=False),
    row("ConfigMap", short="cm"),
    row("Endpoints", "endpoints", short="ep", storage_path="services/endpoints"),
    row(
        "Event",
        short="ev",
        select=(
            *(field(f"involvedObject.{name}") for name in EVENT_OBJECT),
            field("reason"),
            field("reportingComponent"),
            field("source", "source.component", "reportingComponent"),
            field("type"),
        ),
        stored=CORE_EVENT,
    ),
    row("LimitRange", short="limits"),
    row(
        "Namespace",
        short="ns",
        cluster=True,
        verbs=tuple(verb for verb in STANDARD_VERBS if verb != "deletecollection"),
        subs=(sub("finalize", ("update",)), STATUS),
        select=(field("status.phase"),),
    ),
    row(
        "Node",
        short="no",
        cluster=True,
        subs=(sub("proxy", PROXY, "NodeProxyOptions"), STATUS),
        select=(field("spec.unschedulable", default="false"),),
        storage_path="minions",
    ),
    row("PersistentVolumeClaim", short="pvc", subs=(STATUS,)),
    row("PersistentVolume", short="pv", cluster=True, subs=(STATUS,)),
    row(
        "Pod",
        short="po",
        category="all",
        subs=(
            sub("attach", CONNECT, "PodAttachOptions"),
            sub("binding", CREATE, "Binding"),
            sub("ephemeralcontainers"),
            sub("eviction", CREATE, EVICTION),
            sub("exec", CONNECT, "PodExecOptions"),
            sub("log", ("get",)),
            sub("portforward", CONNECT, "PodPortForwardOptions"),
            sub("proxy", PROXY, "PodProxyOptions"),
            sub("resize", gate="InPlacePodVerticalScaling"),
            STATUS,
        ),
        select=POD_FIELDS,
    ),
    row("PodTemplate"),
    row(
        "ReplicationController",
        short="rc",
        category="all",
        subs=(SCALED, STATUS),
        select=(field("status.replicas", default="0"),),
        storage_path="controllers",
    ),
    row("ResourceQuota", short="quota", subs=(STATUS,)),
    row("Secret", select=(field("type"),)),
    row("ServiceAccount", short="sa", subs=(sub("token", CREATE, TOKEN_REQUEST),)),
    row(
        "Service",
        short="svc",
        category="all",
        subs=(sub("proxy", PROXY, "ServiceProxyOptions"), STATUS),
        select=(field("spec.clusterIP"), field("spec.type")),
        storage_path="services/specs",
    ),
)

BUILT_IN = (
    CORE_V1,
    declare_version(
        "apiregistration.k8s.io",
        "v1",
        (20000, 15),
        row(
            "APIService",
            category="api-extensions",
            cluster=True,
            subs=(STATUS,),
            storage_path="apiregistration.k8s.io/apiservices",
        ),
    ),
    declare_version(
        "apps",
        "v1",
        (17800, 15),
        row("ControllerRevision"),
        row("DaemonSet", short="ds", category="all", subs=(STATUS,)),
        row("Deployment", short="deploy", category="all", subs=(SCALED, STATUS)),
        row("ReplicaSet", short="rs", category="all", subs=(SCALED, STATUS)),
        row("StatefulSet", short="sts", category="all", subs=(SCALED, STATUS)),
    ),
    declare_version(
        "events.k8s.io",
        "v1",
        (17750, 15),
        row(
            "Event",
            short="ev",
            select=(
                *(field(f"regarding.{name}", f"involvedObject.{name}") for name in EVENT_OBJECT),
                field("reason"),
                field("reportingController", "reportingComponent"),
                field("type"),
            ),
            stored=CORE_EVENT,
        ),
    ),
    declare_version(
        "authentication.k8s.io",
        "v1",
        (17700, 15),
        row("SelfSubjectReview", cluster=True, verbs=CREATE),
        row("TokenReview", cluster=True, verbs=CREATE),
    ),
    declare_version(
        "authorization.k8s.io",
        "v1",
        (17600, 15),
        row("LocalSubjectAccessReview", verbs=CREATE),
        row("SelfSubjectAccessReview", cluster=True, verbs=CREATE),
        row("SelfSubjectRulesReview", cluster=True, verbs=CREATE),
        row("SubjectAccessReview", cluster=True, verbs=CREATE),
    ),
    declare_version(
        "autoscaling",
        "v2",
        (17500, 30),
        row("HorizontalPodAutoscaler", short="hpa", category="all", subs=(STATUS,)),
    ),
    declare_version(
        "autoscaling",
        "v1",
        (17500, 15),
        row("HorizontalPodAutoscaler", short="hpa", category="all", subs=(STATUS,)),
    ),
    declare_version(
        "batch",
        "v1",
        (17400, 15),
        row("CronJob", short="cj", category="all", subs=(STATUS,)),
        row(
            "Job",
            category="all",
            subs=(STATUS,),
            select=(field("status.successful", "status.succeeded", default="0"),),
        ),
    ),
    declare_version(
        "certificates.k8s.io",
        "v1",
        (17300, 15),
        row(
            "CertificateSigningRequest",
            short="csr",
            cluster=True,
            subs=(sub("approval"), STATUS),
            select=(SIGNER,),
        ),
        row("ClusterTrustBundle", cluster=True, select=(SIGNER,), since=37, gate="ClusterTrustBundle"),
        row("PodCertificateRequest", subs=(STATUS,), select=REQUEST_FIELDS, since=37, gate="PodCertificateRequest"),
    ),
    declare_version(
        "certificates.k8s.io",
        "v1beta1",
        (17300, 9),
        row("ClusterTrustBundle", cluster=True, select=(SIGNER,), until=40, gate="ClusterTrustBundle"),
        row(
            "PodCertificateRequest",
            subs=(STATUS,),
            select=REQUEST_FIELDS,
            since=35,
            until=40,
            gate="PodCertificateRequest",
        ),
    ),
    declare_version(
        "certificates.k8s.io",
        "v1alpha1",
        (17300, 1),
        row("ClusterTrustBundle", cluster=True, select=(SIGNER,), until=37, gate="ClusterTrustBundle"),
    ),
    declare_version(
        "networking.k8s.io",
        "v1",
        (17200, 15),
        row("IngressClass", "ingressclasses", cluster=True),
        row("Ingress", "ingresses", short="ing", subs=(STATUS,), storage_path="ingress"),
        row("IPAddress", "ipaddresses", short="ip", cluster=True),
        row("NetworkPolicy", "networkpolicies", short="netpol"),
        row("ServiceCIDR", cluster=True, subs=(STATUS,)),
    ),
    declare_version(
        "networking.k8s.io",
        "v1beta1",
        (17200, 9),
        row("IPAddress", "ipaddresses", short="ip", cluster=True, until=37),
        row("ServiceCIDR", cluster=True, subs=(STATUS,), until=37),
    ),
    declare_version("policy", "v1", (17100, 15), row("PodDisruptionBudget", short="pdb", subs=(STATUS,))),
    declare_version(
        "rbac.authorization.k8s.io",
        "v1",
        (17000, 15),
        row("ClusterRoleBinding", cluster=True),
        row("ClusterRole", cluster=True),
        row("RoleBinding"),
        row("Role"),
    ),
    declare_version(
        "storage.k8s.io",
        "v1",
        (16800, 15),
        row("CSIDriver", cluster=True),
        row("CSINode", cluster=True, subs=(STATUS,)),
        row("CSIStorageCapacity", "csistoragecapacities"),
        row("StorageClass", "storageclasses", short="sc", cluster=True),
        row("VolumeAttachment", cluster=True, subs=(STATUS,)),
        row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True, since=34),
    ),
    declare_version(
        "storage.k8s.io",
        "v1beta1",
        (16800, 9),
        row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True, until=37),
    ),
    declare_version(
        "admissionregistration.k8s.io",
        "v1",
        (16700, 15),
        row(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            category="api-extensions",
            cluster=True,
            since=36,
        ),
        row("MutatingAdmissionPolicyBinding", category="api-extensions", cluster=True, since=36),
        row("MutatingWebhookConfiguration", category="api-extensions", cluster=True),
        row(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            category="api-extensions",
            cluster=True,
            subs=(STATUS,),
        ),
        row("ValidatingAdmissionPolicyBinding", category="api-extensions", cluster=True),
        row("ValidatingWebhookConfiguration", category="api-extensions", cluster=True),
    ),
    *(
        declare_version(
            "admissionregistration.k8s.io",
            version,
            (16700, priority),
            row(
                "MutatingAdmissionPolicy",
                "mutatingadmissionpolicies",
                category="api-extensions",
                cluster=True,
                since=since,
                until=until,
            ),
            row("MutatingAdmissionPolicyBinding", category="api-extensions", cluster=True, since=since, until=until),
        )
        for version, priority, since, until in (("v1beta1", 12, 34, 40), ("v1alpha1", 9, 32, 38))
    ),
    declare_version(
        "apiextensions.k8s.io",
        "v1",
        (16700, 15),
        row(
            "CustomResourceDefinition",
            short="crd crds",
            category="api-extensions",
            cluster=True,
            subs=(STATUS,),
            storage_path="apiextensions.k8s.io/customresourcedefinitions",
            advertised="v1beta1",
        ),
    ),
    declare_version(
        "scheduling.k8s.io",
        "v1",
        (16600, 15),
        row("PriorityClass", "priorityclasses", short="pc", cluster=True),
    ),
    declare_version(
        "scheduling.k8s.io",
        "v1beta1",
        (16600, 9),
        row("PodGroup", subs=(STATUS,), since=37, until=43, gate="GenericWorkload"),
        row("Workload", since=37, until=43, gate="GenericWorkload"),
    ),
    declare_version(
        "scheduling.k8s.io",
        "v1alpha3",
        (16600, 3),
        row("CompositePodGroup", subs=(STATUS,), gate="CompositePodGroup"),
        row("PodGroup", subs=(STATUS,), gate="GenericWorkload"),
        row("Workload", gate="GenericWorkload"),
    ),
    declare_version("coordination.k8s.io", "v1", (16500, 15), row("Lease")),
    declare_version("coordination.k8s.io", "v1beta1", (16500, 13), row("LeaseCandidate", since=33, until=39)),
    declare_version("coordination.k8s.io", "v1alpha2", (16500, 12), row("LeaseCandidate", since=32, until=38)),
    declare_version("node.k8s.io", "v1", (16300, 15), row("RuntimeClass", "runtimeclasses", cluster=True)),
    declare_version("discovery.k8s.io", "v1", (16200, 15), row("EndpointSlice")),
    declare_version(
        "resource.k8s.io",
        "v1",
        (16200, 21),
        row("DeviceClass", "deviceclasses", cluster=True, since=34),
        row("DeviceTaintRule", cluster=True, subs=(STATUS,), since=37),
        row("ResourceClaim", subs=(STATUS,), since=34),
        row("ResourceClaimTemplate", since=34),
        row("ResourceSlice", cluster=True, select=SLICE_FIELDS, since=34),
    ),
    declare_version(
        "resource.k8s.io",
        "v1beta2",
        (16200, 15),
        row("DeviceClass", "deviceclasses", cluster=True, since=33, until=39),
        row("DeviceTaintRule", cluster=True, subs=(STATUS,), since=36, until=42),
        row("ResourceClaim", subs=(STATUS,), since=33, until=39),
        row("ResourceClaimTemplate", since=33, until=39),
        row("ResourceSlice", cluster=True, select=SLICE_FIELDS, since=33, until=39),
    ),
    declare_version(
        "resource.k8s.io",
        "v1beta1",
        (16200, 9),
        row("DeviceClass", "deviceclasses", cluster=True, since=32, until=38),
        row("ResourceClaim", subs=(STATUS,), since=32, until=38),
        row("ResourceClaimTemplate", since=32, until=38),
        row("ResourceSlice", cluster=True, select=SLICE_FIELDS, since=32, until=38),
    ),
    declare_version(
        "resource.k8s.io",
        "v1alpha3",
        (16200, 1),
        row("DeviceTaintRule", cluster=True, subs=(STATUS,), since=33, until=39),
        row("ResourcePoolStatusRequest", cluster=True, subs=(STATUS,), since=36, until=42),
    ),
    declare_version(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        (16100, 21),
        row("FlowSchema", cluster=True, subs=(STATUS,)),
        row("PriorityLevelConfiguration", cluster=True, subs=(STATUS,)),
    ),
    declare_version(
        "internal.apiserver.k8s.io", "v1alpha1", (16000, 9), row("StorageVersion", cluster=True, subs=(STATUS,))
    ),
    declare_version(
        "storagemigration.k8s.io",
        "v1",
        (15800, 15),
        row("StorageVersionMigration", cluster=True, subs=(STATUS,), since=37, gate="StorageVersionMigrator"),
    ),
    declare_version(
        "storagemigration.k8s.io",
        "v1beta1",
        (15800, 9),
        row(
            "StorageVersionMigration",
            cluster=True,
            subs=(STATUS,),
            since=35,
            until=40,
            gate="StorageVersionMigrator",
        ),
    ),
    declare_version(
        "lifecycle.k8s.io",
        "v1alpha1",
        (15700, 1),
        row("Eviction", subs=(STATUS,), since=37, until=43, gate="EvictionRequestAPI"),
        row("EvictionRequest", subs=(STATUS,), since=37, until=43, gate="EvictionRequestAPI"),
    ),
)

STORED_AS = {
    ("certificates.k8s.io", "ClusterTrustBundle"): "v1beta1",
    ("certificates.k8s.io", "PodCertificateRequest"): "v1beta1",
    ("coordination.k8s.io", "LeaseCandidate"): "v1beta1",
    ("lifecycle.k8s.io", "Eviction"): "v1alpha1",
    ("lifecycle.k8s.io", "EvictionRequest"): "v1alpha1",
    ("resource.k8s.io", "DeviceTaintRule"): "v1beta2",
    ("resource.k8s.io", "ResourcePoolStatusRequest"): "v1alpha3",
    ("scheduling.k8s.io", "CompositePodGroup"): "v1alpha3",
    ("scheduling.k8s.io", "PodGroup"): "v1beta1",
    ("scheduling.k8s.io", "Workload"): "v1beta1",
    ("storagemigration.k8s.io", "StorageVersionMigration"): "v1beta1",
}
"""Storage versions that kube-apiserver prescribes, by group and kind. They apply at every level."""

__all__ = ["BUILT_IN", "STORED_AS", "GroupVersion"]
