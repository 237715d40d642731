from typing import Any

import pytest

from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster

CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
EXPANDED = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
BOUND = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}


async def create_bound_claim(cluster: Cluster, class_name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_name,
    }
    await cluster.make(CLAIMS, {"metadata": {"name": "a"}, "spec": spec})
    await cluster.patch(f"{CLAIMS}/a/status", BOUND)


@pytest.mark.parametrize(
    ("class_name", "class_fields", "code"),
    [("c", {"allowVolumeExpansion": True}, 200), ("c", {}, 403), ("missing", {}, 403), ("", {}, 403)],
)
def test_bound_claim_can_be_expanded_only_if_storage_class_allows_expansion(
    class_name: str, class_fields: dict[str, Any], code: int
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(
            "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "c"}, "provisioner": "p", **class_fields}
        )
        await create_bound_claim(cluster, class_name)
        reply = await cluster.patch(f"{CLAIMS}/a", EXPANDED)
        assert reply.code == code
        if code != 200:
            assert reply.json["message"] == (
                'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized and the '
                "storageclass that provisions the pvc must support resize"
            )

    run_in_cluster(work)


def test_label_change_is_allowed_without_volume_expansion() -> None:
    async def work(cluster: Cluster) -> None:
        await create_bound_claim(cluster, "")
        assert (await cluster.patch(f"{CLAIMS}/a", {"metadata": {"labels": {"l": "m"}}})).code == 200

    run_in_cluster(work)
