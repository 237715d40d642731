from typing import Any

import pytest

from tests.apiserver.cluster import NAMESPACE, Cluster, in_cluster

CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
GROWN = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
BOUND = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}


async def claim(cluster: Cluster, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    await cluster.make(CLAIMS, {"metadata": {"name": "a"}, "spec": spec})
    await cluster.patch(f"{CLAIMS}/a/status", BOUND)


@pytest.mark.parametrize(
    ("class_name", "grows", "code"),
    [("c", {"allowVolumeExpansion": True}, 200), ("c", {}, 403), ("missing", {}, 403), ("", {}, 403)],
)
def test_a_bound_claim_grows_if_its_class_says_so(class_name: str, grows: dict[str, Any], code: int) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(
            "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "c"}, "provisioner": "p", **grows}
        )
        await claim(cluster, class_name)
        reply = await cluster.patch(f"{CLAIMS}/a", GROWN)
        assert reply.code == code
        if code != 200:
            assert reply.json["message"] == (
                'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized and the '
                "storageclass that provisions the pvc must support resize"
            )

    in_cluster(work)


def test_other_changes_are_not_looked_at() -> None:
    async def work(cluster: Cluster) -> None:
        await claim(cluster, "")
        assert (await cluster.patch(f"{CLAIMS}/a", {"metadata": {"labels": {"l": "m"}}})).code == 200

    in_cluster(work)
