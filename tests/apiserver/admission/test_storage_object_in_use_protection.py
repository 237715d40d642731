from typing import Any

import pytest

from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster
from tests.apiserver.every_kind import GOOD

KINDS = {
    "kubernetes.io/pv-protection": ("/api/v1/persistentvolumes", ("", "PersistentVolume")),
    "kubernetes.io/pvc-protection": (f"{NAMESPACE}/persistentvolumeclaims", ("", "PersistentVolumeClaim")),
    "kubernetes.io/vac-protection": (
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        ("storage.k8s.io", "VolumeAttributesClass"),
    ),
}


@pytest.mark.parametrize("finalizer", KINDS)
def test_protection_finalizer_is_added_to_new_objects_and_delays_deletion(finalizer: str) -> None:
    path, kind = KINDS[finalizer]

    async def work(cluster: Cluster) -> None:
        assert await finalizers(cluster, {"name": "a"}) == [finalizer]
        assert await finalizers(cluster, {"name": "b", "finalizers": ["x.io/f", finalizer]}) == ["x.io/f", finalizer]
        deleted = (await cluster.send("DELETE", f"{path}/a")).json
        assert "deletionTimestamp" in deleted["metadata"]
        await cluster.patch(f"{path}/a", {"metadata": {"finalizers": None}})
        assert (await cluster.send("GET", f"{path}/a")).code == 404

    async def finalizers(cluster: Cluster, metadata: dict[str, Any]) -> Any:
        return (await cluster.make(path, {**GOOD[kind], "metadata": metadata}))["metadata"]["finalizers"]

    run_in_cluster(work)
