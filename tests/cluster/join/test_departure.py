"""The pods that are moved before a node leaves, and the permissions of the node."""

import pytest

from sampan.api.types.core_v1 import Node, Pod, PodStatus
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.apiserver.request.call import UserInfo
from sampan.cluster.join.departure import cordon, delete_node, movable_pods
from sampan.cluster.join.grants import ensure_grants, join_grants
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.testing import Cluster


def pod(name: str, phase: str = "Running", **metadata: object) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, **metadata), status=PodStatus(phase=phase))  # type: ignore[arg-type]


def test_mirror_daemon_set_and_finished_pods_are_not_moved() -> None:
    owner = OwnerReference(apiVersion="apps/v1", kind="DaemonSet", name="d", uid="u")
    pods = [
        pod("plain"),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}),
        pod("daemon", ownerReferences=[owner]),
        pod("ended", "Succeeded"),
        pod("ending", "Failed", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert [item.metadata.name for item in movable_pods(pods)] == ["plain", "ending"]


async def test_a_node_may_cordon_and_delete_only_itself() -> None:
    async with Cluster() as cluster:
        await ensure_grants(cluster.client, join_grants())
        for name in ("own", "other"):
            await cluster.client.for_kind(Node).create(Node(metadata=ObjectMeta(name=name)))
        user = UserInfo("system:node:own", groups=("system:nodes", "system:authenticated"))
        node = Client(transport=cluster.assembly.transport.as_user(user), clock=cluster.clock, component="test")
        await cordon(node, "own")
        assert (await cluster.client.for_kind(Node).get("own")).spec.unschedulable
        with pytest.raises(errors.Forbidden):
            await delete_node(node, "other")
        await delete_node(node, "own")
        await delete_node(node, "own")
        assert [item.metadata.name for item in (await cluster.client.for_kind(Node).list()).items] == ["other"]
