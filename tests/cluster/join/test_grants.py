"""The RBAC objects and config maps that let nodes join a cluster."""

import yaml

from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from sampan.cluster.join.grants import (
    ClusterNetworks,
    cluster_config,
    cluster_info,
    ensure_config_map,
    ensure_grants,
    join_grants,
    one_use_grants,
    read_cluster_config,
)
from sampan.cluster.join.token import DEFAULT_GROUP, new_token, token_secret
from sampan.testing import Cluster


def test_every_binding_refers_to_a_role_that_exists() -> None:
    objects = join_grants()
    own = {(type(obj).__name__, obj.metadata.name) for obj in objects}
    defaults = {"system:node-bootstrapper"}
    for obj in objects:
        if isinstance(obj, ClusterRoleBinding | RoleBinding):
            name = obj.roleRef.name
            is_default = name in defaults or name.startswith("system:certificates.k8s.io:")
            assert is_default or (obj.roleRef.kind, name) in own


def test_one_use_grants_are_owned_by_the_token_secret() -> None:
    secret = token_secret(new_token("sha256:0"), expires=None, is_one_use=True)
    secret.metadata.uid = "uid"
    role, binding = one_use_grants(secret)
    assert role.metadata.ownerReferences[0].uid == binding.metadata.ownerReferences[0].uid == "uid"
    assert isinstance(role, Role)
    assert [rule.resourceNames for rule in role.rules or ()] == [[secret.metadata.name]]


def test_cluster_config_round_trip() -> None:
    networks = ClusterNetworks(pod_cidrs=["10.200.0.0/16", "fd00::/48"], service_cidrs=["10.96.0.0/16"])
    assert read_cluster_config(cluster_config(networks)) == networks


def test_unreadable_cluster_config_gives_no_cidrs() -> None:
    assert read_cluster_config(ConfigMap(data={"ClusterConfiguration": ": ["})) == ClusterNetworks(
        pod_cidrs=[], service_cidrs=[]
    )


def test_cluster_info_is_a_kubeconfig_without_users() -> None:
    content = yaml.safe_load(cluster_info("https://192.0.2.1:6443", b"PEM").data["kubeconfig"])
    assert content["clusters"][0]["cluster"]["server"] == "https://192.0.2.1:6443"
    assert "users" not in content


async def test_grants_are_created_once_and_cluster_info_is_updated() -> None:
    async with Cluster() as cluster:
        client = cluster.client
        for _ in range(2):
            await ensure_grants(client, join_grants())
        role = await client.for_kind(ClusterRole).get("kubeadm:get-nodes")
        assert [rule.verbs for rule in role.rules or ()] == [["get"]]
        binding = await client.for_kind(ClusterRoleBinding).get("kubeadm:kubelet-bootstrap")
        assert binding.subjects[0].name == DEFAULT_GROUP
        for server in ("https://192.0.2.1:6443", "https://192.0.2.2:6443"):
            await ensure_config_map(client, cluster_info(server, b"PEM"))
            stored = await client.for_kind(ConfigMap).get("cluster-info", "kube-public")
            assert server in stored.data["kubeconfig"]
