"""The objects that a cluster needs so that nodes can join: RBAC objects, and ConfigMaps with its CA and its networks.

Names and rules are those of kubeadm (`phases/bootstraptoken`, `phases/uploadconfig`), so that `kubeadm join` and other
tools find them too. A joined node runs its service proxy, DNS server and network policies with the credentials of the
node; the objects named `sampan:joined-nodes` permit that. Existing roles and bindings are left unchanged, so that an
administrator may edit them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from sampan.cluster.join.token import DEFAULT_GROUP
from sampan.cluster.kubeconfig import cluster_entry
from sampan.controllers.security.bootstrap_tokens import (
    CLUSTER_INFO,
    CLUSTER_INFO_NAMESPACE,
    KUBECONFIG,
    NAMESPACE,
)
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.config_file import ConfigFileError, decode_config
from sampan.machinery.copies import copy_of

CLUSTER_CONFIG: Final = "kubeadm-config"
"""The ConfigMap in kube-system with the networks of the cluster."""
CLUSTER_CONFIG_KEY: Final = "ClusterConfiguration"
_RBAC: Final = "rbac.authorization.k8s.io"
_CSR: Final = "system:certificates.k8s.io:certificatesigningrequests"
_NODES_GROUP: Final = "system:nodes"
_ANONYMOUS: Final = "system:anonymous"
_JOINED: Final = "sampan:joined-nodes"
_READ: Final = ["get", "list", "watch"]

RbacObject = ClusterRole | ClusterRoleBinding | Role | RoleBinding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetworks:
    """The networks that all nodes of a cluster have to agree on."""

    pod_cidrs: Sequence[str] = ()
    """The cluster CIDRs, from which pods get their addresses."""
    service_cidrs: Sequence[str] = ()
    dns_domain: str = "cluster.local"


def join_grants() -> list[RbacObject]:
    """Return the RBAC objects that let nodes join and run their components."""
    joining, nodes = _group(DEFAULT_GROUP), _group(_NODES_GROUP)
    get_nodes, cluster_info, config = (
        "kubeadm:get-nodes",
        "kubeadm:bootstrap-signer-clusterinfo",
        "kubeadm:nodes-kubeadm-config",
    )
    return [
        _cluster_binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", joining),
        _cluster_binding("kubeadm:node-autoapprove-bootstrap", f"{_CSR}:nodeclient", joining),
        _cluster_binding("kubeadm:node-autoapprove-certificate-rotation", f"{_CSR}:selfnodeclient", nodes),
        _cluster_role(get_nodes, _rule([""], ["nodes"], ["get"])),
        _cluster_binding(get_nodes, get_nodes, joining),
        _role(cluster_info, CLUSTER_INFO_NAMESPACE, _rule([""], ["configmaps"], ["get"], [CLUSTER_INFO])),
        _role_binding(cluster_info, CLUSTER_INFO_NAMESPACE, Subject(apiGroup=_RBAC, kind="User", name=_ANONYMOUS)),
        _role(config, NAMESPACE, _rule([""], ["configmaps"], ["get"], [CLUSTER_CONFIG])),
        _role_binding(config, NAMESPACE, joining, nodes),
        _cluster_role(
            _JOINED,
            _rule([""], ["nodes", "services", "pods", "namespaces"], _READ),
            _rule(["discovery.k8s.io"], ["endpointslices"], _READ),
            _rule(["networking.k8s.io"], ["networkpolicies", "servicecidrs"], _READ),
            _rule([""], ["nodes"], ["delete"]),
        ),
        _cluster_binding(_JOINED, _JOINED, nodes),
    ]


def one_use_grants(secret: Secret) -> list[RbacObject]:
    """Return the role and the binding that let the CSR approver record the use of this token. They are deleted with the
    token."""
    name = secret.metadata.name
    owner = OwnerReference(apiVersion="v1", kind="Secret", name=name, uid=secret.metadata.uid)
    approver = Subject(kind="ServiceAccount", namespace=NAMESPACE, name="certificate-controller")
    granted: list[RbacObject] = [
        _role(name, NAMESPACE, _rule([""], ["secrets"], ["get", "update"], [name])),
        _role_binding(name, NAMESPACE, approver),
    ]
    for obj in granted:
        obj.metadata.ownerReferences = [owner]
    return granted


async def revoke_slice_grants(client: Client) -> None:
    """Delete the Role and RoleBinding `sampan:joined-nodes` in kube-system, if they exist: with them every node could
    redirect the clients of all services in kube-system to itself."""
    for kind in (RoleBinding, Role):
        try:
            await client.for_kind(kind).delete(_JOINED, NAMESPACE)
        except errors.NotFound:
            continue


async def ensure_grants(client: Client, objects: Sequence[RbacObject]) -> None:
    """Create those objects that do not exist."""

    async def create(obj: RbacObject) -> None:
        try:
            await client.for_kind(type(obj)).create(obj)
        except errors.AlreadyExists:
            return

    await asyncio.gather(*map(create, objects))


# -- ConfigMaps ------------------------------------------------------------------------------------------------------


def cluster_info(server: str, ca: bytes) -> ConfigMap:
    """Return the ConfigMap cluster-info, which everybody may read, and from which a machine that joins
    learns the CA."""
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster_entry("", server, ca)]}
    return _config_map(CLUSTER_INFO, CLUSTER_INFO_NAMESPACE, KUBECONFIG, kubeconfig)


def cluster_config(networks: ClusterNetworks) -> ConfigMap:
    content = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "networking": {
            "dnsDomain": networks.dns_domain,
            "podSubnet": ",".join(networks.pod_cidrs),
            "serviceSubnet": ",".join(networks.service_cidrs),
        },
    }
    return _config_map(CLUSTER_CONFIG, NAMESPACE, CLUSTER_CONFIG_KEY, content)


def read_cluster_config(config_map: ConfigMap) -> ClusterNetworks:
    """Return the networks in the ConfigMap kubeadm-config; a network that it lacks is empty."""
    try:
        content = decode_config(config_map.data.get(CLUSTER_CONFIG_KEY, ""), is_strict=False)
    except ConfigFileError:
        content = None
    networking = content.get("networking") if isinstance(content, dict) else None
    values = networking if isinstance(networking, dict) else {}
    return ClusterNetworks(
        pod_cidrs=_split_list(values.get("podSubnet")),
        service_cidrs=_split_list(values.get("serviceSubnet")),
        dns_domain=str(values.get("dnsDomain") or "cluster.local"),
    )


async def ensure_config_map(client: Client, desired: ConfigMap) -> None:
    """Create the ConfigMap, or update the keys of `desired`. Other keys, such as signatures, are left unchanged."""
    maps, name, namespace = client.for_kind(ConfigMap), desired.metadata.name, desired.metadata.namespace
    while True:
        try:
            present = await maps.get(name, namespace)
            if desired.data.items() <= present.data.items():
                return
            changed = copy_of(present)
            changed.data = {**present.data, **desired.data}
            await maps.update(changed)
            return
        except errors.Conflict:
            continue
        except errors.NotFound:
            try:
                await maps.create(desired)
                return
            except errors.AlreadyExists:
                continue


def _config_map(name: str, namespace: str, key: str, content: dict[str, Any]) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace=namespace)
    return ConfigMap(metadata=metadata, data={key: yaml.safe_dump(content, sort_keys=False)})


def _split_list(value: object) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else []


# -- RBAC ------------------------------------------------------------------------------------------------------------


def _rule(groups: list[str], resources: list[str], verbs: list[str], names: Sequence[str] = ()) -> PolicyRule:
    return PolicyRule(apiGroups=groups, resources=resources, verbs=verbs, resourceNames=list(names))


def _group(name: str) -> Subject:
    return Subject(apiGroup=_RBAC, kind="Group", name=name)


def _cluster_role(name: str, *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name), rules=list(rules))


def _cluster_binding(name: str, role: str, *subjects: Subject) -> ClusterRoleBinding:
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=role)
    return ClusterRoleBinding(metadata=ObjectMeta(name=name), roleRef=reference, subjects=list(subjects))


def _role(name: str, namespace: str, *rules: PolicyRule) -> Role:
    return Role(metadata=ObjectMeta(name=name, namespace=namespace), rules=list(rules))


def _role_binding(name: str, namespace: str, *subjects: Subject) -> RoleBinding:
    """Return the binding of the role of the same name."""
    reference = RoleRef(apiGroup=_RBAC, kind="Role", name=name)
    return RoleBinding(metadata=ObjectMeta(name=name, namespace=namespace), roleRef=reference, subjects=list(subjects))
