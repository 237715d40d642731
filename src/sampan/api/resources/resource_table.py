"""Every built-in resource, one row each, with the group versions that serve it.

`SERVED` are the versions that v1.36 serves by default; `OPTIONAL` versions are enabled with --runtime-config.
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
            sub("resize"),
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

SERVED = (
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
        row("HorizontalPodAutoscaler", short="hpa", category="all", subs=(STATUS,), stored="v2"),
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
        row("CSINode", cluster=True),
        row("CSIStorageCapacity", "csistoragecapacities"),
        row("StorageClass", "storageclasses", short="sc", cluster=True),
        row("VolumeAttachment", cluster=True, subs=(STATUS,)),
        row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True),
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
            advertised="v1beta1",
        ),
        row("MutatingAdmissionPolicyBinding", category="api-extensions", cluster=True, advertised="v1beta1"),
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
    declare_version("coordination.k8s.io", "v1", (16500, 15), row("Lease")),
    declare_version("node.k8s.io", "v1", (16300, 15), row("RuntimeClass", "runtimeclasses", cluster=True)),
    declare_version("discovery.k8s.io", "v1", (16200, 15), row("EndpointSlice")),
    declare_version(
        "resource.k8s.io",
        "v1",
        (16200, 21),
        row("DeviceClass", "deviceclasses", cluster=True),
        row("ResourceClaim", subs=(STATUS,)),
        row("ResourceClaimTemplate"),
        row("ResourceSlice", cluster=True, select=SLICE_FIELDS),
    ),
    declare_version(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        (16100, 21),
        row("FlowSchema", cluster=True, subs=(STATUS,)),
        row("PriorityLevelConfiguration", cluster=True, subs=(STATUS,)),
    ),
)

OPTIONAL = (
    declare_version(
        "certificates.k8s.io",
        "v1beta1",
        (17300, 9),
        row("ClusterTrustBundle", cluster=True, select=(SIGNER,)),
        row(
            "PodCertificateRequest",
            subs=(STATUS,),
            select=(SIGNER, field("spec.podName"), field("spec.nodeName")),
        ),
    ),
    declare_version(
        "certificates.k8s.io",
        "v1alpha1",
        (17300, 1),
        row("ClusterTrustBundle", cluster=True, select=(SIGNER,), stored="v1beta1"),
    ),
    declare_version(
        "networking.k8s.io",
        "v1beta1",
        (17200, 9),
        row("IPAddress", "ipaddresses", short="ip", cluster=True, stored="v1"),
        row("ServiceCIDR", cluster=True, subs=(STATUS,), stored="v1"),
    ),
    declare_version(
        "storage.k8s.io",
        "v1beta1",
        (16800, 9),
        row("VolumeAttributesClass", "volumeattributesclasses", short="vac", cluster=True, stored="v1"),
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
                stored="v1",
                advertised="v1beta1",
            ),
            row(
                "MutatingAdmissionPolicyBinding",
                category="api-extensions",
                cluster=True,
                stored="v1",
                advertised="v1beta1",
            ),
        )
        for version, priority in (("v1beta1", 12), ("v1alpha1", 9))
    ),
    declare_version(
        "scheduling.k8s.io",
        "v1alpha2",
        (16600, 2),
        row("PodGroup", subs=(STATUS,)),
        row("Workload"),
    ),
    declare_version("coordination.k8s.io", "v1beta1", (16500, 13), row("LeaseCandidate")),
    declare_version("coordination.k8s.io", "v1alpha2", (16500, 12), row("LeaseCandidate", stored="v1beta1")),
    *(
        declare_version(
            "resource.k8s.io",
            version,
            (16200, priority),
            row("DeviceClass", "deviceclasses", cluster=True, stored="v1"),
            *(
                [row("DeviceTaintRule", cluster=True, subs=(STATUS,), stored="v1alpha3")]
                if version == "v1beta2"
                else []
            ),
            row("ResourceClaim", subs=(STATUS,), stored="v1"),
            row("ResourceClaimTemplate", stored="v1"),
            row("ResourceSlice", cluster=True, select=SLICE_FIELDS, stored="v1"),
        )
        for version, priority in (("v1beta2", 15), ("v1beta1", 9))
    ),
    declare_version(
        "resource.k8s.io",
        "v1alpha3",
        (16200, 1),
        row("DeviceTaintRule", cluster=True, subs=(STATUS,)),
        row("ResourcePoolStatusRequest", cluster=True, subs=(STATUS,)),
    ),
    declare_version(
        "internal.apiserver.k8s.io", "v1alpha1", (16000, 9), row("StorageVersion", cluster=True, subs=(STATUS,))
    ),
    declare_version(
        "storagemigration.k8s.io",
        "v1beta1",
        (15800, 9),
        row("StorageVersionMigration", cluster=True, subs=(STATUS,)),
    ),
)

__all__ = ["OPTIONAL", "SERVED", "GroupVersion"]
