"""Descriptions of objects as `kubectl describe` prints them (kubectl's pkg/describe).

A describer is a function from an object and a view of the cluster to lines with tab-separated columns. There is one for
each kind that has a layout of its own; the others are printed field by field.
"""

from __future__ import annotations

from collections.abc import Callable

from sampan.kubectl.describers import access, configuration, network, nodes, pods, storage, workloads
from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.generic import describe_generic
from sampan.kubectl.describers.layout import Lines, Value, text_of

Describer = Callable[[Value, ClusterView], Lines]

_DESCRIBERS: dict[tuple[str, str], Describer] = {
    ("", "Pod"): pods.describe_pod,
    ("", "ReplicationController"): workloads.describe_replication_controller,
    ("", "Secret"): configuration.describe_secret,
    ("", "Service"): network.describe_service,
    ("", "ServiceAccount"): access.describe_service_account,
    ("", "Node"): nodes.describe_node,
    ("", "LimitRange"): configuration.describe_limit_range,
    ("", "ResourceQuota"): configuration.describe_quota,
    ("", "PersistentVolume"): storage.describe_persistent_volume,
    ("", "PersistentVolumeClaim"): storage.describe_claim,
    ("", "Namespace"): configuration.describe_namespace,
    ("", "Endpoints"): network.describe_endpoints,
    ("", "ConfigMap"): configuration.describe_config_map,
    ("scheduling.k8s.io", "PriorityClass"): configuration.describe_priority_class,
    ("discovery.k8s.io", "EndpointSlice"): network.describe_endpoint_slice,
    ("autoscaling", "HorizontalPodAutoscaler"): workloads.describe_autoscaler,
    ("networking.k8s.io", "Ingress"): network.describe_ingress,
    ("networking.k8s.io", "IngressClass"): network.describe_ingress_class,
    ("networking.k8s.io", "ServiceCIDR"): network.describe_service_cidr,
    ("networking.k8s.io", "IPAddress"): network.describe_ip_address,
    ("networking.k8s.io", "NetworkPolicy"): network.describe_network_policy,
    ("batch", "Job"): workloads.describe_job,
    ("batch", "CronJob"): workloads.describe_cron_job,
    ("apps", "StatefulSet"): workloads.describe_stateful_set,
    ("apps", "Deployment"): workloads.describe_deployment,
    ("apps", "DaemonSet"): workloads.describe_daemon_set,
    ("apps", "ReplicaSet"): workloads.describe_replica_set,
    ("certificates.k8s.io", "CertificateSigningRequest"): access.describe_signing_request,
    ("storage.k8s.io", "StorageClass"): storage.describe_storage_class,
    ("storage.k8s.io", "CSINode"): storage.describe_csi_node,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.describe_volume_attributes_class,
    ("policy", "PodDisruptionBudget"): workloads.describe_disruption_budget,
    ("rbac.authorization.k8s.io", "Role"): access.describe_role,
    ("rbac.authorization.k8s.io", "ClusterRole"): access.describe_role,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.describe_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.describe_binding,
}


def describe(obj: Value, view: ClusterView) -> str:
    """Return the description of an object."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    describer = _DESCRIBERS.get((group, str(obj.get("kind", ""))), describe_generic)
    return text_of(describer(obj, view))


__all__ = ["ClusterView", "describe"]
