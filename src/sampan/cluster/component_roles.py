"""RBAC roles and bindings that the components of `sampan up` need beyond the default roles. No component is
cluster-admin.

They are created when the cluster starts. Existing ones are left unchanged, so that an administrator may edit them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sampan.api.types.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from sampan.apiserver.request.call import AUTHENTICATED
from sampan.cluster.pki import KUBELET_CLIENT_USER
from sampan.machinery import errors
from sampan.machinery.client import Client

log = logging.getLogger(__name__)

FLEET_USER: Final = "system:sampan:fleet"
_REFERENCES_ROLE: Final = "system:sampan:fleet-references"
"""A role of its own, because an existing role of an earlier version is never changed."""
_CERTIFICATES_ROLE: Final = "system:sampan:fleet-certificates"
POLICY_USER: Final = "system:sampan:network-policy"
DNS_USER: Final = "system:kube-dns"
INGRESS_USER: Final = "system:sampan:ingress"
_REVIEWS, _REVIEW_PAUSE_S = 100, 0.005
_RBAC: Final = "rbac.authorization.k8s.io"
_CSR: Final = "certificates.k8s.io"
_DISCOVERY: Final = "discovery.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_DNS_ROLE: Final = "system:sampan:dns"
_SELF_NODE_SERVER: Final = f"system:{_CSR}:certificatesigningrequests:selfnodeserver"


def roles() -> list[ClusterRole]:
    follow = PolicyRule(apiGroups=[""], resources=["nodes", "pods"], verbs=["get", "list", "watch"])
    report = PolicyRule(apiGroups=["", "events.k8s.io"], resources=["events"], verbs=["create", "patch", "update"])
    serve = PolicyRule(apiGroups=[_CSR], resources=["certificatesigningrequests/selfnodeserver"], verbs=["create"])
    taint = PolicyRule(apiGroups=[""], resources=["nodes"], verbs=["patch"])
    isolate = [
        PolicyRule(apiGroups=[group], resources=resources, verbs=["get", "list", "watch"])
        for group, resources in (("", ["namespaces", "pods"]), (_NETWORKING, ["networkpolicies"]))
    ]
    check_references = [
        PolicyRule(apiGroups=[""], resources=["configmaps", "secrets"], verbs=["get", "list", "watch"]),
        PolicyRule(
            apiGroups=[""], resources=["persistentvolumeclaims", "persistentvolumes", "serviceaccounts"], verbs=["get"]
        ),
        PolicyRule(apiGroups=[_CSR], resources=["clustertrustbundles"], verbs=["get", "list"]),
    ]
    follow_certificates = PolicyRule(
        apiGroups=[_CSR], resources=["clustertrustbundles", "podcertificaterequests"], verbs=["get", "list", "watch"]
    )
    resolve = PolicyRule(apiGroups=[""], resources=["services", "namespaces", "nodes"], verbs=["list", "watch"])
    follow_slices = PolicyRule(apiGroups=[_DISCOVERY], resources=["endpointslices"], verbs=["list", "watch"])
    return [
        _role(POLICY_USER, *isolate, report),
        _role(INGRESS_USER, *_ingress_rules(), follow_slices, report),
        _role(FLEET_USER, follow, report, taint),
        _role(_REFERENCES_ROLE, *check_references),
        _role(_CERTIFICATES_ROLE, follow_certificates),
        _role(_SELF_NODE_SERVER, serve),
        _role(_DNS_ROLE, resolve, follow_slices),
    ]


def _ingress_rules() -> list[PolicyRule]:
    """Return the rules of the Ingress controller besides those for reading EndpointSlices. Like every Ingress
    controller it reads the secrets of all namespaces."""
    follow, resources = ["list", "watch"], ["ingresses", "ingressclasses"]
    return [
        PolicyRule(apiGroups=[_NETWORKING], resources=resources, verbs=follow),
        PolicyRule(apiGroups=[_NETWORKING], resources=["ingresses/status"], verbs=["patch"]),
        PolicyRule(apiGroups=[""], resources=["services", "secrets", "nodes"], verbs=follow),
    ]


def bindings() -> list[ClusterRoleBinding]:
    fleet, server = (Subject(apiGroup=_RBAC, kind="User", name=name) for name in (FLEET_USER, KUBELET_CLIENT_USER))
    nodes = Subject(apiGroup=_RBAC, kind="Group", name="system:nodes")
    certificates = Subject(kind="ServiceAccount", namespace="kube-system", name="certificate-controller")
    return [
        _binding(FLEET_USER, FLEET_USER, fleet),
        _binding(_REFERENCES_ROLE, _REFERENCES_ROLE, fleet),
        _binding(_CERTIFICATES_ROLE, _CERTIFICATES_ROLE, fleet),
        *(
            _binding(user, user, Subject(apiGroup=_RBAC, kind="User", name=user))
            for user in (POLICY_USER, INGRESS_USER)
        ),
        _binding("sampan:kube-apiserver-kubelet-client", "system:kubelet-api-admin", server),
        _binding(_SELF_NODE_SERVER, _SELF_NODE_SERVER, nodes),
        _binding("sampan:approve-kubelet-serving", f"system:{_CSR}:kubelet-serving-approver", certificates),
        _binding(_DNS_ROLE, _DNS_ROLE, Subject(apiGroup=_RBAC, kind="User", name=DNS_USER)),
    ]


def system_roles() -> list[Role | RoleBinding]:
    """Return the roles and bindings in kube-system with which DNS servers and Ingress controllers publish their
    EndpointSlices."""
    return [*_publishing_roles(_DNS_ROLE, DNS_USER), *_publishing_roles(INGRESS_USER, INGRESS_USER)]


def _publishing_roles(name: str, user: str) -> list[Role | RoleBinding]:
    metadata = ObjectMeta(name=name, namespace="kube-system")
    publish = PolicyRule(
        apiGroups=[_DISCOVERY], resources=["endpointslices"], verbs=["create", "update", "delete", "list", "watch"]
    )
    binding = RoleBinding(
        metadata=metadata,
        roleRef=RoleRef(apiGroup=_RBAC, kind="Role", name=name),
        subjects=[Subject(apiGroup=_RBAC, kind="User", name=user)],
    )
    return [Role(metadata=metadata, rules=[publish]), binding]


async def ensure_component_roles(client: Client) -> None:
    """Create missing roles and bindings, all concurrently, so that the writes share a commit.

    Failures are only logged: a cluster whose store is read-only, because its disk is full, starts anyway.
    """

    async def create(obj: ClusterRole | ClusterRoleBinding | Role | RoleBinding) -> None:
        try:
            await client.for_kind(type(obj)).create(obj)
        except errors.AlreadyExists:
            return
        except errors.ApiError as error:
            log.error("cannot create %s %s: %s", type(obj).__name__, obj.metadata.name, error)

    await asyncio.gather(*map(create, roles()), *map(create, bindings()), *map(create, system_roles()))
    await _wait_until_effective(client)


async def _wait_until_effective(client: Client) -> None:
    """Wait until the authorizer has observed the roles, which happens shortly after they are written. A component that
    started earlier would be denied, and would retry much later. The wait is limited, as the access review stays
    negative if other authorizers decide.
    """
    attributes = ResourceAttributes(verb="list", version="v1", resource="nodes")
    spec = SubjectAccessReviewSpec(user=FLEET_USER, groups=[AUTHENTICATED], resourceAttributes=attributes)
    for _ in range(_REVIEWS):
        try:
            review = await client.for_kind(SubjectAccessReview).create(SubjectAccessReview(spec=spec))
        except errors.ApiError as error:
            log.warning("cannot check the permissions of %s: %s", FLEET_USER, error)
            return
        if review.status.allowed:
            return
        await asyncio.sleep(_REVIEW_PAUSE_S)


def _role(name: str, *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name), rules=list(rules))


def _binding(name: str, role: str, *subjects: Subject) -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=ObjectMeta(name=name),
        roleRef=RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=role),
        subjects=list(subjects),
    )
