from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.semantics.pod_references import referenced_resource
from sampan.api.types.authentication_v1 import TokenRequest
from sampan.api.types.core_v1 import Node, Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import CSIDriver
from sampan.apiserver.admission.node_restriction import NODES, find_mirror_pod_error, forbidden_changes, node_of
from sampan.apiserver.request.call import MASTERS, Call, UserInfo
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.testing import Cluster as ApiServerCluster
from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.pods import pod, spec_with_container

MIRROR = {"kubernetes.io/config.mirror": "x"}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("user", "node"),
    [
        (UserInfo("system:node:n", groups=(NODES,)), "n"),
        (UserInfo("system:node:", groups=(NODES,)), ""),
        (UserInfo("system:node:n"), None),
        (UserInfo("joe", groups=(NODES,)), None),
    ],
)
def test_node_name_requires_nodes_group_and_username_prefix(user: UserInfo, node: str | None) -> None:
    assert node_of(user) == node


@pytest.mark.parametrize(
    ("old", "new", "forbidden"),
    [
        ({}, {"mine": "1", "example.com/a": "1"}, []),
        ({}, {"kubernetes.io/hostname": "n", "node.kubernetes.io/own": "1", "a.kubelet.kubernetes.io/b": "1"}, []),
        ({}, {"kubernetes.io/x": "1", "x.k8s.io/y": "1"}, ["kubernetes.io/x", "x.k8s.io/y"]),
        ({"node-restriction.kubernetes.io/a": "1"}, {}, ["node-restriction.kubernetes.io/a"]),
        ({"a.node-restriction.kubernetes.io/a": "1"}, {"a.node-restriction.kubernetes.io/a": "1"}, []),
        ({"kubernetes.io/x": "1"}, {"kubernetes.io/x": "2"}, ["kubernetes.io/x"]),
    ],
)
def test_node_may_not_change_restricted_labels(old: dict[str, str], new: dict[str, str], forbidden: list[str]) -> None:
    assert forbidden_changes(old, new) == forbidden


@pytest.mark.parametrize(
    ("metadata", "spec", "message"),
    [
        ({"annotations": MIRROR, "ownerReferences": [OWNER]}, {"nodeName": "n"}, ""),
        ({}, {}, 'pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods'),
        ({"annotations": MIRROR}, {}, 'node "n" can only create pods with spec.nodeName set to itself'),
        (
            {"annotations": MIRROR},
            {"nodeName": "n"},
            'node "n" can only create pods with an owner reference set to itself',
        ),
        (
            {"annotations": MIRROR, "ownerReferences": [OWNER, OWNER]},
            {"nodeName": "n"},
            'node "n" can only create pods with a single owner reference set to itself',
        ),
        (
            {"annotations": MIRROR, "ownerReferences": [{**OWNER, "controller": False}]},
            {"nodeName": "n"},
            'node "n" can only create pods with a controller owner reference set to itself',
        ),
        (
            {"annotations": MIRROR, "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}]},
            {"nodeName": "n"},
            'node "n" must not set blockOwnerDeletion on an owner reference',
        ),
    ],
)
def test_node_may_only_create_mirror_pods_bound_to_and_owned_by_itself(
    metadata: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    assert find_mirror_pod_error(pod(spec, **metadata), "n") == message


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ""),
        ({"serviceAccountName": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        (spec_with_container(envFrom=[{"configMapRef": {"name": "m"}}]), "configmaps"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentvolumeclaims"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceaccounts (via projected volumes)",
        ),
    ],
)
def test_references_of_mirror_pods_to_api_resources_are_found(spec: dict[str, Any], kind: str) -> None:
    assert referenced_resource(pod(spec).spec) == kind


def test_node_may_not_modify_other_nodes_own_taints_or_pods_of_other_nodes() -> None:
    async def work(cluster: Cluster) -> None:
        user = UserInfo("system:node:n", groups=(NODES, MASTERS))

        async def expect_forbidden(method: str, path: str, body: bytes = b"", media: str = "application/json") -> str:
            call: Call = cluster.client.make_call(method, path, body, {"content_type": media})
            call.user = user
            with pytest.raises(errors.Forbidden) as refusal:
                await cluster.client.pipeline.serve_as(call)
            return refusal.value.message

        await cluster.make("/api/v1/nodes", {"metadata": {"name": "n"}})
        await cluster.make("/api/v1/nodes", {"metadata": {"name": "m"}})
        merge = "application/merge-patch+json"
        assert await expect_forbidden("PATCH", "/api/v1/nodes/m", b'{"metadata": {"labels": {"a": "b"}}}', merge) == (
            'nodes "m" is forbidden: node "n" is not allowed to modify node "m"'
        )
        assert await expect_forbidden("PATCH", "/api/v1/nodes/n", b'{"spec": {"taints": []}}', merge) == (
            'nodes "n" is forbidden: node "n" is not allowed to modify taints'
        )
        await cluster.create_pod()
        assert await expect_forbidden("DELETE", "/api/v1/namespaces/ns/pods/a") == (
            'pods "a" is forbidden: node "n" can only delete pods with spec.nodeName set to itself'
        )

    run_in_cluster(work)


async def test_node_may_request_tokens_only_for_audiences_in_pod_volumes() -> None:
    sources = [{"serviceAccountToken": {"path": "t", "audience": "shop"}}, {"serviceAccountToken": {"path": "u"}}]
    volumes = [
        {"name": "tokens", "projected": {"sources": sources}},
        {"name": "inline", "csi": {"driver": "d.example"}},
    ]

    async with ApiServerCluster(components=["apiserver"]) as cluster:
        client = cluster.client
        await client.for_kind(Node).create(Node(metadata=ObjectMeta(name="n")))
        driver = {"metadata": {"name": "d.example"}, "spec": {"tokenRequests": [{"audience": "vault"}]}}
        await client.for_kind(CSIDriver).create(codec.from_value(driver, CSIDriver))
        meta = ObjectMeta(name="default", namespace="default")
        await client.for_kind(ServiceAccount).create(ServiceAccount(metadata=meta))
        spec = {"nodeName": "n", "volumes": volumes, "automountServiceAccountToken": False}
        created_pod = await client.for_kind(Pod).create(pod(spec, name="a", namespace="default"))
        user = UserInfo("system:node:n", groups=(NODES, "system:authenticated"))
        transport = cluster.assembly.transport.as_user(user)
        accounts = Client(transport=transport, clock=cluster.clock, component="kubelet").for_kind(ServiceAccount)

        async def request_token(*audiences: str) -> str:
            bound = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": created_pod.metadata.uid}
            value = {"spec": {"audiences": list(audiences), "boundObjectRef": bound}}
            request = codec.from_value(value, TokenRequest)
            try:
                await accounts.create_subresource("token", "default", request, "default")
            except errors.Forbidden as refusal:
                return refusal.message
            return ""

        assert await request_token("bank") == (
            'serviceaccounts "default" is forbidden: '
            'system:node:n is not authorized to request tokens for audience "bank"'
        )
        assert "node may only request 0 or 1 audiences" in await request_token("shop", "vault")
        assert [await request_token("shop"), await request_token("vault"), await request_token()] == ["", "", ""]
