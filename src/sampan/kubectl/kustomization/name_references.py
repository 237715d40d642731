"""Fields that hold the names of other objects. When a transformer renames an object, references to it are updated."""

from __future__ import annotations

from typing import Any

from sampan.kubectl.kustomization.resource import FieldSpec, KustomizeResource, holders

_WORKLOADS = {
    "Pod": "",
    "PodTemplate": "template/",
    "Deployment": "spec/template/",
    "ReplicaSet": "spec/template/",
    "ReplicationController": "spec/template/",
    "DaemonSet": "spec/template/",
    "StatefulSet": "spec/template/",
    "Job": "spec/template/",
    "CronJob": "spec/jobTemplate/spec/template/",
}
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _pod_field_specs(*paths: str) -> list[FieldSpec]:
    return [FieldSpec(f"{prefix}spec/{path}", kind) for kind, prefix in _WORKLOADS.items() for path in paths]


def _container_paths(*paths: str) -> list[str]:
    return [f"{field}/{path}" for field in ("containers", "initContainers") for path in paths]


_RULES = [FieldSpec("rules/resourceNames", "Role"), FieldSpec("rules/resourceNames", "ClusterRole")]
_SCALE_TARGET = [FieldSpec("spec/scaleTargetRef/name", "HorizontalPodAutoscaler")]
_WEBHOOKS = [
    FieldSpec("webhooks/clientConfig/service/name", "ValidatingWebhookConfiguration", _ADMISSION),
    FieldSpec("webhooks/clientConfig/service/name", "MutatingWebhookConfiguration", _ADMISSION),
]
_INGRESS_SECRETS = [
    FieldSpec(f"metadata/annotations/{name}", "Ingress")
    for name in (
        "ingress.kubernetes.io\\/auth-secret",
        "nginx.ingress.kubernetes.io\\/auth-secret",
        "nginx.ingress.kubernetes.io\\/auth-tls-secret",
    )
]

REFERENCES: dict[str, list[FieldSpec]] = {
    "Deployment": _SCALE_TARGET,
    "ReplicationController": _SCALE_TARGET,
    "ReplicaSet": _SCALE_TARGET,
    "StatefulSet": _SCALE_TARGET,
    "ConfigMap": [
        *_pod_field_specs(
            "volumes/configMap/name",
            "volumes/projected/sources/configMap/name",
            *_container_paths("env/valueFrom/configMapKeyRef/name", "envFrom/configMapRef/name"),
        ),
        FieldSpec("spec/configSource/configMap", "Node"),
        *_RULES,
        FieldSpec("metadata/annotations/nginx.ingress.kubernetes.io\\/fastcgi-params-configmap", "Ingress"),
    ],
    "Secret": [
        *_pod_field_specs(
            "volumes/secret/secretName",
            "volumes/projected/sources/secret/name",
            "imagePullSecrets/name",
            *_container_paths("env/valueFrom/secretKeyRef/name", "envFrom/secretRef/name"),
        ),
        FieldSpec("spec/tls/secretName", "Ingress"),
        *_INGRESS_SECRETS,
        FieldSpec("imagePullSecrets/name", "ServiceAccount"),
        FieldSpec("parameters/secretName", "StorageClass"),
        FieldSpec("parameters/adminSecretName", "StorageClass"),
        FieldSpec("parameters/userSecretName", "StorageClass"),
        FieldSpec("parameters/secretRef", "StorageClass"),
        *_RULES,
        FieldSpec("spec/azureFile/secretName", "PersistentVolume"),
    ],
    "Service": [
        FieldSpec("spec/serviceName", "StatefulSet", "apps"),
        FieldSpec("spec/rules/http/paths/backend/serviceName", "Ingress"),
        FieldSpec("spec/backend/serviceName", "Ingress"),
        FieldSpec("spec/rules/http/paths/backend/service/name", "Ingress"),
        FieldSpec("spec/defaultBackend/service/name", "Ingress"),
        FieldSpec("spec/service/name", "APIService"),
        *_WEBHOOKS,
    ],
    "Role": [FieldSpec("roleRef/name", "RoleBinding", _RBAC)],
    "ClusterRole": [
        FieldSpec("roleRef/name", "RoleBinding", _RBAC),
        FieldSpec("roleRef/name", "ClusterRoleBinding", _RBAC),
    ],
    "ServiceAccount": _pod_field_specs("serviceAccountName"),
    "PersistentVolumeClaim": _pod_field_specs("volumes/persistentVolumeClaim/claimName"),
    "PersistentVolume": [
        FieldSpec("spec/volumeName", "PersistentVolumeClaim"),
        FieldSpec("rules/resourceNames", "ClusterRole"),
    ],
    "StorageClass": [
        FieldSpec("spec/storageClassName", "PersistentVolume"),
        FieldSpec("spec/storageClassName", "PersistentVolumeClaim"),
        FieldSpec("spec/volumeClaimTemplates/spec/storageClassName", "StatefulSet"),
    ],
    "PriorityClass": _pod_field_specs("priorityClassName"),
    "IngressClass": [FieldSpec("spec/ingressClassName", "Ingress")],
    "ValidatingAdmissionPolicy": [FieldSpec("spec/policyName", "ValidatingAdmissionPolicyBinding", _ADMISSION)],
}


def fix_references(resources: list[KustomizeResource]) -> None:
    """Replace old names by current ones in the fields that refer to other objects."""
    for kind, specs in REFERENCES.items():
        targets = [resource for resource in resources if resource.kind == kind]
        if not targets:
            continue
        for referrer in resources:
            for spec in specs:
                if spec.applies_to(referrer):
                    _fix_field(referrer, spec.path, targets)
    for referrer in resources:
        if referrer.kind in ("RoleBinding", "ClusterRoleBinding"):
            _fix_subjects(referrer, resources)


def _fix_field(referrer: KustomizeResource, path: str, targets: list[KustomizeResource]) -> None:
    for holder, field in holders(referrer.value, path, creates=False):
        value = holder[field]
        if isinstance(value, str):
            holder[field] = _current_name(referrer, value, targets)
        elif isinstance(value, list):
            holder[field] = [
                _current_name(referrer, item, targets) if isinstance(item, str) else item for item in value
            ]
        elif isinstance(value, dict) and isinstance(value.get("name"), str):
            value["name"] = _current_name(referrer, value["name"], targets)


def _current_name(referrer: KustomizeResource, name: str, targets: list[KustomizeResource]) -> str:
    target = find_target(referrer, name, targets)
    return target.name if target is not None and _is_of_kind(referrer, target) else name


def _is_of_kind(referrer: KustomizeResource, target: KustomizeResource) -> bool:
    role = referrer.value.get("roleRef")
    return not isinstance(role, dict) or target.kind == role.get("kind")


def find_target(
    referrer: KustomizeResource, name: str, targets: list[KustomizeResource], namespace: str | None = None
) -> KustomizeResource | None:
    """Return the object that a reference by name means: the object in the referrer's namespace that had this name.
    Among several, choose the one from the nearest kustomization."""
    candidates = []
    for target in targets:
        if not target.had_name(name) or target is referrer:
            continue
        is_local = target.is_namespaced and referrer.is_namespaced and namespace is None
        if is_local and (target.namespace or "default") != (referrer.namespace or "default"):
            continue
        if namespace is not None and not target.had_name(name, namespace):
            continue
        candidates.append(target)
    if not candidates:
        return None
    return max(candidates, key=lambda target: _nearness(referrer, target))


def _nearness(referrer: KustomizeResource, target: KustomizeResource) -> int:
    return len(set(referrer.scopes) & set(target.scopes))


def _fix_subjects(referrer: KustomizeResource, resources: list[KustomizeResource]) -> None:
    accounts = [resource for resource in resources if resource.kind == "ServiceAccount"]
    for subject in referrer.value.get("subjects") or ():
        if not isinstance(subject, dict) or subject.get("kind") != "ServiceAccount":
            continue
        account = _subject_account(referrer, subject, accounts)
        if account is not None:
            subject["name"] = account.name
            if account.namespace:
                subject["namespace"] = account.namespace


def _subject_account(
    referrer: KustomizeResource, subject: dict[str, Any], accounts: list[KustomizeResource]
) -> KustomizeResource | None:
    name, namespace = str(subject.get("name", "")), str(subject.get("namespace") or "")
    return find_target(referrer, name, accounts, namespace)
