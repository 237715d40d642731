"""The admission plugins in the order of kube-apiserver, and which of them are enabled by default."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.admission.always_admit import AlwaysAdmit
from sampan.apiserver.admission.always_deny import AlwaysDenyAdmission
from sampan.apiserver.admission.always_pull_images import AlwaysPullImages
from sampan.apiserver.admission.certificate_approval import CertificateApproval
from sampan.apiserver.admission.certificate_signing import CertificateSigning
from sampan.apiserver.admission.certificate_subject_restriction import CertificateSubjectRestriction
from sampan.apiserver.admission.cluster_trust_bundle_attest import ClusterTrustBundleAttest
from sampan.apiserver.admission.default_ingress_class import DefaultIngressClass
from sampan.apiserver.admission.default_storage_class import DefaultStorageClass
from sampan.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds, TolerationDefaults
from sampan.apiserver.admission.deny_service_external_ips import DenyServiceExternalIPs
from sampan.apiserver.admission.event_rate_limit import EventRateLimit
from sampan.apiserver.admission.extended_resource_toleration import ExtendedResourceToleration
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError, Configurations
from sampan.apiserver.admission.framework.contract import (
    RegisteredPlugin,
    register_mutating,
    register_mutating_and_validating,
    register_validating,
)
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics
from sampan.apiserver.admission.framework.static_manifests import StaticManifests, static_manifests
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
from sampan.apiserver.admission.pod_group_protection import PodGroupProtection
from sampan.apiserver.admission.pod_node_selector import PodNodeSelector
from sampan.apiserver.admission.pod_resize import PodResizeValidator
from sampan.apiserver.admission.pod_security import PodSecurity
from sampan.apiserver.admission.pod_toleration_restriction import PodTolerationRestriction
from sampan.apiserver.admission.pod_topology_labels import PodTopologyLabels
from sampan.apiserver.admission.policies import MutatingAdmissionPolicyPlugin, ValidatingAdmissionPolicyPlugin
from sampan.apiserver.admission.priority import PriorityAdmission
from sampan.apiserver.admission.resource_quota import ResourceQuotaAdmission
from sampan.apiserver.admission.runtime_class import RuntimeClassAdmission
from sampan.apiserver.admission.service_account import ServiceAccountAdmission
from sampan.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from sampan.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition
from sampan.apiserver.admission.webhooks import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from sampan.apiserver.registry.admission_configs.reserved_names import GATE as MANIFESTS_GATE
from sampan.apiserver.webhooks.client import WebhookClients
from sampan.machinery.telemetry.metrics import Metrics

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginContext:
    """The settings and metrics that plugins get from the server, besides their own configuration."""

    metrics: AdmissionMetrics
    tolerations: TolerationDefaults
    webhooks: WebhookClients | None
    """The client of admission webhooks; None if they cannot be called."""
    feature_gates: FeatureGates


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """The functions that create a plugin, at least one of which is set, and whether it is enabled by default."""

    make: Callable[[PluginContext], RegisteredPlugin] | None
    """Makes the plugin without a configuration; None if it requires one."""
    make_configured: Callable[[Mapping[str, Any], PluginContext], RegisteredPlugin] | None
    """Makes the plugin from its configuration; None if it accepts none."""
    is_default: bool
    """Whether the plugin is enabled unless it is disabled explicitly."""
    gate: str = ""
    """The feature gate without which the plugin does nothing."""


def _row(
    register: Callable[[P], RegisteredPlugin],
    make: Callable[[], P] | None,
    *,
    configured: Callable[[Mapping[str, Any]], P] | None = None,
    is_default: bool = True,
) -> PluginRow:
    return PluginRow(
        make=None if make is None else lambda context: register(make()),
        make_configured=None if configured is None else lambda config, context: register(configured(config)),
        is_default=is_default,
    )


class _MeasuredPlugin(Protocol[P_co]):
    """The class of a plugin that records metrics."""

    def __call__(self, *, metrics: AdmissionMetrics, manifests: StaticManifests | None) -> P_co: ...


def _policy_row(
    register: Callable[[P], RegisteredPlugin], make: _MeasuredPlugin[P], kind: str, gate: str = ""
) -> PluginRow:
    def make_with(manifests: StaticManifests | None, context: PluginContext) -> RegisteredPlugin:
        plugin = register(make(metrics=context.metrics, manifests=manifests))
        return replace(plugin, manifests=manifests)

    def make_configured(config: Mapping[str, Any], context: PluginContext) -> RegisteredPlugin:
        enabled = context.feature_gates.is_enabled(MANIFESTS_GATE)
        form, kinds = f"{kind}Configuration", (kind, f"{kind}Binding")
        return make_with(static_manifests(config, form, kinds, is_enabled=enabled), context)

    return PluginRow(
        make=lambda context: make_with(None, context), make_configured=make_configured, is_default=True, gate=gate
    )


class _WebhookPlugin(Protocol[P_co]):
    """The class of a plugin that calls webhooks."""

    def __call__(
        self,
        *,
        clients: WebhookClients | None,
        metrics: AdmissionMetrics,
        feature_gates: FeatureGates,
        manifests: StaticManifests | None,
    ) -> P_co: ...


def _webhook_row(register: Callable[[P], RegisteredPlugin], make: _WebhookPlugin[P], kind: str) -> PluginRow:
    def make_with(manifests: StaticManifests | None, context: PluginContext) -> RegisteredPlugin:
        gates = context.feature_gates
        plugin = make(clients=context.webhooks, metrics=context.metrics, feature_gates=gates, manifests=manifests)
        return replace(register(plugin), manifests=manifests)

    def make_configured(config: Mapping[str, Any], context: PluginContext) -> RegisteredPlugin:
        enabled = context.feature_gates.is_enabled(MANIFESTS_GATE)
        return make_with(static_manifests(config, "WebhookAdmission", (kind,), is_enabled=enabled), context)

    return PluginRow(make=lambda context: make_with(None, context), make_configured=make_configured, is_default=True)


PLUGINS: Final[dict[str, PluginRow]] = {
    "AlwaysAdmit": _row(register_validating, AlwaysAdmit, is_default=False),
    "NamespaceAutoProvision": _row(register_mutating, NamespaceAutoProvision, is_default=False),
    "NamespaceLifecycle": _row(register_mutating, NamespaceLifecycle),
    "NamespaceExists": _row(register_validating, NamespaceExists, is_default=False),
    "LimitPodHardAntiAffinityTopology": _row(register_validating, LimitPodHardAntiAffinityTopology, is_default=False),
    "LimitRanger": _row(register_mutating_and_validating, LimitRanger),
    "ServiceAccount": _row(register_mutating_and_validating, ServiceAccountAdmission),
    "NodeRestriction": _row(register_mutating, NodeRestriction),
    "TaintNodesByCondition": _row(register_mutating, TaintNodesByCondition),
    "AlwaysPullImages": _row(register_mutating_and_validating, AlwaysPullImages, is_default=False),
    "ImagePolicyWebhook": _row(register_validating, None, configured=ImagePolicyWebhook, is_default=False),
    "PodSecurity": _row(register_validating, PodSecurity, configured=PodSecurity.from_config),
    "PodNodeSelector": _row(
        register_mutating_and_validating, PodNodeSelector, configured=PodNodeSelector.from_config, is_default=False
    ),
    "Priority": _row(register_mutating_and_validating, PriorityAdmission),
    "DefaultTolerationSeconds": PluginRow(
        make=lambda context: register_mutating(DefaultTolerationSeconds(context.tolerations)),
        make_configured=None,
        is_default=True,
    ),
    "PodTolerationRestriction": _row(
        register_mutating_and_validating,
        PodTolerationRestriction,
        configured=PodTolerationRestriction.from_config,
        is_default=False,
    ),
    "EventRateLimit": _row(register_validating, None, configured=EventRateLimit, is_default=False),
    "ExtendedResourceToleration": _row(register_mutating, ExtendedResourceToleration, is_default=False),
    "DefaultStorageClass": _row(register_mutating, DefaultStorageClass),
    "StorageObjectInUseProtection": _row(register_mutating, StorageObjectInUseProtection),
    "PodGroupProtection": _row(register_mutating, PodGroupProtection),
    "OwnerReferencesPermissionEnforcement": _row(
        register_validating, OwnerReferencesPermissionEnforcement, is_default=False
    ),
    "PersistentVolumeClaimResize": _row(register_validating, PersistentVolumeClaimResize),
    "RuntimeClass": _row(register_mutating_and_validating, RuntimeClassAdmission),
    "CertificateApproval": _row(register_validating, CertificateApproval),
    "CertificateSigning": _row(register_validating, CertificateSigning),
    "ClusterTrustBundleAttest": _row(register_validating, ClusterTrustBundleAttest),
    "CertificateSubjectRestriction": _row(register_validating, CertificateSubjectRestriction),
    "DefaultIngressClass": _row(register_mutating, DefaultIngressClass),
    "DenyServiceExternalIPs": _row(register_validating, DenyServiceExternalIPs, is_default=False),
    "PodTopologyLabels": _row(register_mutating, PodTopologyLabels),
    "NodeDeclaredFeatureValidator": _row(register_validating, NodeDeclaredFeatureValidator),
    "PodResizeValidator": _row(register_validating, PodResizeValidator),
    "MutatingAdmissionPolicy": _policy_row(
        register_mutating, MutatingAdmissionPolicyPlugin, "MutatingAdmissionPolicy", "MutatingAdmissionPolicy"
    ),
    "MutatingAdmissionWebhook": _webhook_row(
        register_mutating, MutatingAdmissionWebhook, "MutatingWebhookConfiguration"
    ),
    "ValidatingAdmissionPolicy": _policy_row(
        register_validating, ValidatingAdmissionPolicyPlugin, "ValidatingAdmissionPolicy"
    ),
    "ValidatingAdmissionWebhook": _webhook_row(
        register_validating, ValidatingAdmissionWebhook, "ValidatingWebhookConfiguration"
    ),
    "ResourceQuota": _row(register_validating, ResourceQuotaAdmission, configured=ResourceQuotaAdmission.from_config),
    "AlwaysDeny": _row(register_mutating_and_validating, AlwaysDenyAdmission, is_default=False),
}
"""All plugins in the order of kube-apiserver. NodeRestriction is enabled by default, since the Node authorizer depends
on it."""


class UnknownAdmissionPlugin(ValueError):
    """A plugin name is unknown."""


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in PLUGINS:
            raise UnknownAdmissionPlugin(f"there is no admission plugin {name!r}")


def default_plugins(
    disabled: Collection[str] = (),
    enabled: Collection[str] = (),
    configurations: Configurations | None = None,
    *,
    metrics: Metrics | None = None,
    tolerations: TolerationDefaults | None = None,
    webhooks: WebhookClients | None = None,
    feature_gates: FeatureGates | None = None,
) -> list[RegisteredPlugin]:
    """Return the enabled plugins: the default ones and `enabled`, without `disabled`."""
    settings = configurations or {}
    context = PluginContext(
        metrics=AdmissionMetrics(metrics=metrics or Metrics()),
        tolerations=tolerations or TolerationDefaults(),
        webhooks=webhooks,
        feature_gates=feature_gates or FeatureGates(),
    )
    check_names((*enabled, *disabled, *settings))
    names = [name for name, row in PLUGINS.items() if (row.is_default or name in enabled) and name not in disabled]
    return [_make(name, settings.get(name), context) for name in names if _has_feature(PLUGINS[name], context)]


def _has_feature(row: PluginRow, context: PluginContext) -> bool:
    return not row.gate or context.feature_gates.is_enabled(row.gate)


def _make(name: str, configuration: Mapping[str, Any] | None, context: PluginContext) -> RegisteredPlugin:
    row = PLUGINS[name]
    if configuration is not None:
        if row.make_configured is None:
            raise ConfigurationError(f"{name}: takes no configuration")
        return row.make_configured(configuration, context)
    if row.make is None:
        raise ConfigurationError(f"{name}: needs a configuration")
    return row.make(context)
