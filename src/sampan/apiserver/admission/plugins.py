"""The admission plugins in the order of kube-apiserver, and which of them are enabled by default."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from sampan.apiserver.admission.always_admit import AlwaysAdmit
from sampan.apiserver.admission.always_deny import AlwaysDeny
from sampan.apiserver.admission.always_pull_images import AlwaysPullImages
from sampan.apiserver.admission.certificate_approval import CertificateApproval
from sampan.apiserver.admission.certificate_signing import CertificateSigning
from sampan.apiserver.admission.certificate_subject_restriction import CertificateSubjectRestriction
from sampan.apiserver.admission.chain import Plugin
from sampan.apiserver.admission.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from sampan.apiserver.admission.configuration import ConfigurationError, Configurations
from sampan.apiserver.admission.default_ingress_class import DefaultIngressClass
from sampan.apiserver.admission.default_storage_class import DefaultStorageClass
from sampan.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from sampan.apiserver.admission.deny_service_external_ips import DenyServiceExternalIPs
from sampan.apiserver.admission.event_rate_limit import EventRateLimit
from sampan.apiserver.admission.extended_resource_toleration import ExtendedResourceToleration
from sampan.apiserver.admission.image_policy_webhook import ImagePolicyWebhook
from sampan.apiserver.admission.limit_pod_hard_anti_affinity_topology import LimitPodHardAntiAffinityTopology
from sampan.apiserver.admission.limit_ranger import LimitRanger
from sampan.apiserver.admission.namespace_auto_provision import NamespaceAutoProvision
from sampan.apiserver.admission.namespace_exists import NamespaceExists
from sampan.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from sampan.apiserver.admission.node_declared_feature_validator import NodeDeclaredFeatureValidator
from sampan.apiserver.admission.node_restriction import NodeRestriction
from sampan.apiserver.admission.owner_references_permission_enforcement import OwnerReferencesPermissionEnforcement
from sampan.apiserver.admission.persistent_volume_claim_resize import PersistentVolumeClaimResize
from sampan.apiserver.admission.pod_node_selector import PodNodeSelector
from sampan.apiserver.admission.pod_resize import PodResizeValidator
from sampan.apiserver.admission.pod_security import PodSecurity
from sampan.apiserver.admission.pod_toleration_restriction import PodTolerationRestriction
from sampan.apiserver.admission.pod_topology_labels import PodTopologyLabels
from sampan.apiserver.admission.priority import Priority
from sampan.apiserver.admission.resource_quota import ResourceQuotaAdmission
from sampan.apiserver.admission.runtime_class import RuntimeClassAdmission
from sampan.apiserver.admission.service_account import ServiceAccountAdmission
from sampan.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from sampan.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition

Make = Callable[[], Plugin]
MakeConfigured = Callable[[Mapping[str, Any]], Plugin]

PLUGINS: Final[dict[str, Make | None]] = {
    "AlwaysAdmit": AlwaysAdmit,
    "NamespaceAutoProvision": NamespaceAutoProvision,
    "NamespaceLifecycle": NamespaceLifecycle,
    "NamespaceExists": NamespaceExists,
    "LimitPodHardAntiAffinityTopology": LimitPodHardAntiAffinityTopology,
    "LimitRanger": LimitRanger,
    "ServiceAccount": ServiceAccountAdmission,
    "NodeRestriction": NodeRestriction,
    "TaintNodesByCondition": TaintNodesByCondition,
    "AlwaysPullImages": AlwaysPullImages,
    "ImagePolicyWebhook": None,
    "PodSecurity": PodSecurity,
    "PodNodeSelector": PodNodeSelector,
    "Priority": Priority,
    "DefaultTolerationSeconds": DefaultTolerationSeconds,
    "PodTolerationRestriction": PodTolerationRestriction,
    "EventRateLimit": None,
    "ExtendedResourceToleration": ExtendedResourceToleration,
    "DefaultStorageClass": DefaultStorageClass,
    "StorageObjectInUseProtection": StorageObjectInUseProtection,
    "OwnerReferencesPermissionEnforcement": OwnerReferencesPermissionEnforcement,
    "PersistentVolumeClaimResize": PersistentVolumeClaimResize,
    "RuntimeClass": RuntimeClassAdmission,
    "CertificateApproval": CertificateApproval,
    "CertificateSigning": CertificateSigning,
    "ClusterTrustBundleAttest": ClusterTrustBundleAttest,
    "CertificateSubjectRestriction": CertificateSubjectRestriction,
    "DefaultIngressClass": DefaultIngressClass,
    "DenyServiceExternalIPs": DenyServiceExternalIPs,
    "PodTopologyLabels": PodTopologyLabels,
    "NodeDeclaredFeatureValidator": NodeDeclaredFeatureValidator,
    "PodResizeValidator": PodResizeValidator,
    "ResourceQuota": ResourceQuotaAdmission,
    "AlwaysDeny": AlwaysDeny,
}
"""All plugins in order; None: the plugin requires a configuration."""

CONFIGURED: Final[dict[str, MakeConfigured]] = {
    "EventRateLimit": EventRateLimit,
    "ImagePolicyWebhook": ImagePolicyWebhook,
    "PodNodeSelector": PodNodeSelector.configured,
    "PodSecurity": PodSecurity.configured,
    "PodTolerationRestriction": PodTolerationRestriction.configured,
    "ResourceQuota": ResourceQuotaAdmission.configured,
}
"""The plugins that accept a configuration."""

OFF: Final = frozenset(
    {
        *("AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration"),
        *("LimitPodHardAntiAffinityTopology", "NamespaceAutoProvision", "NamespaceExists", "PodNodeSelector"),
        *("OwnerReferencesPermissionEnforcement", "PodTolerationRestriction", "EventRateLimit"),
        "ImagePolicyWebhook",
    }
)
"""The plugins that must be enabled explicitly. NodeRestriction is enabled by default, since the Node authorizer depends
on it."""


class UnknownPlugin(ValueError):
    """A plugin name is unknown."""


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in PLUGINS:
            raise UnknownPlugin(f"there is no admission plug-in {name!r}")


def default_plugins(
    disabled: Collection[str] = (), enabled: Collection[str] = (), configurations: Configurations | None = None
) -> list[Plugin]:
    """Return the enabled plugins: the default ones and `enabled`, without `disabled`."""
    settings = configurations or {}
    check_names((*enabled, *disabled, *settings))
    is_on = {name: name in enabled or name not in OFF for name in PLUGINS}
    return [_made(name, settings.get(name)) for name in PLUGINS if is_on[name] and name not in disabled]


def _made(name: str, configuration: Mapping[str, Any] | None) -> Plugin:
    if configuration is not None:
        if name not in CONFIGURED:
            raise ConfigurationError(f"{name}: takes no configuration")
        return CONFIGURED[name](configuration)
    make = PLUGINS[name]
    if make is None:
        raise ConfigurationError(f"{name}: needs a configuration")
    return make()
