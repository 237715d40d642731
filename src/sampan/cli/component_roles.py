"""Rights that the components of `sampan up` need beyond the default roles, as RBAC objects. No component is an
administrator.

The roles and bindings are made when the cluster starts; those that exist are left alone, so that an administrator may
change them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from sampan.cli.pki import KUBELET_CLIENT_USER
from sampan.machinery import errors
from sampan.machinery.client import Client

log = logging.getLogger(__name__)

FLEET_USER: Final = "system:sampan:fleet"
_RBAC: Final = "rbac.authorization.k8s.io"
_CSR: Final = "certificates.k8s.io"
_SELF_NODE_SERVER: Final = f"system:{_CSR}:certificatesigningrequests:selfnodeserver"


def roles() -> list[ClusterRole]:
    follow = PolicyRule(apiGroups=[""], resources=["nodes", "pods"], verbs=["get", "list", "watch"])
    register = PolicyRule(apiGroups=[""], resources=["nodes"], verbs=["create"])
    report = PolicyRule(apiGroups=["", "events.k8s.io"], resources=["events"], verbs=["create", "patch", "update"])
    serve = PolicyRule(apiGroups=[_CSR], resources=["certificatesigningrequests/selfnodeserver"], verbs=["create"])
    return [_role(FLEET_USER, follow, register, report), _role(_SELF_NODE_SERVER, serve)]


def bindings() -> list[ClusterRoleBinding]:
    fleet, server = (Subject(apiGroup=_RBAC, kind="User", name=name) for name in (FLEET_USER, KUBELET_CLIENT_USER))
    nodes = Subject(apiGroup=_RBAC, kind="Group", name="system:nodes")
    certificates = Subject(kind="ServiceAccount", namespace="kube-system", name="certificate-controller")
    return [
        _binding(FLEET_USER, FLEET_USER, fleet),
        _binding("sampan:kube-apiserver-kubelet-client", "system:kubelet-api-admin", server),
        _binding(_SELF_NODE_SERVER, _SELF_NODE_SERVER, nodes),
        _binding("sampan:approve-kubelet-serving", f"system:{_CSR}:kubelet-serving-approver", certificates),
    ]


async def ensure_component_roles(client: Client) -> None:
    """Create what is missing; all at once, so that the writes share a commit.

    A cluster whose store cannot be written to, because its disk is full, starts all the same.
    """

    async def create(obj: ClusterRole | ClusterRoleBinding) -> None:
        try:
            if isinstance(obj, ClusterRole):
                await client.of(ClusterRole).create(obj)
            else:
                await client.of(ClusterRoleBinding).create(obj)
        except errors.AlreadyExists:
            return
        except errors.ApiError as error:
            log.error("cannot create %s %s: %s", type(obj).__name__, obj.metadata.name, error)

    await asyncio.gather(*map(create, roles()), *map(create, bindings()))


def _role(name: str, *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name), rules=list(rules))


def _binding(name: str, role: str, subject: Subject) -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=ObjectMeta(name=name),
        roleRef=RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=role),
        subjects=[subject],
    )


__all__ = ["FLEET_USER", "bindings", "ensure_component_roles", "roles"]
