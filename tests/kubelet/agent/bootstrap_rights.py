"""Role bindings with which nodes request their certificates, as kubeadm makes them."""

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from sampan.machinery.client import Client

_GROUPS = {
    "system:node-bootstrapper": "system:bootstrappers",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": "system:bootstrappers",
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": "system:nodes",
}


async def bind_bootstrap_roles(client: Client) -> None:
    for role, group in _GROUPS.items():
        await client.for_kind(ClusterRoleBinding).create(
            ClusterRoleBinding(
                metadata=ObjectMeta(name=role.rpartition(":")[2]),
                roleRef=RoleRef(apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name=role),
                subjects=[Subject(apiGroup="rbac.authorization.k8s.io", kind="Group", name=group)],
            )
        )
