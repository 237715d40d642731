from typing import Any

from tests.apiserver.cluster import NAMESPACE, Cluster, in_cluster

CLASSES, CLAIMS = "/apis/storage.k8s.io/v1/storageclasses", f"{NAMESPACE}/persistentvolumeclaims"
DEFAULT, OLD_DEFAULT = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"


async def storage_class(cluster: Cluster, name: str, **annotations: str) -> None:
    await cluster.make(CLASSES, {"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"})


async def claimed(cluster: Cluster, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}, **spec}
    value = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": claim_spec}
    return (await cluster.make(CLAIMS, value))["spec"].get("storageClassName")


def test_without_a_default_a_claim_has_no_class() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "a")
        assert await claimed(cluster, "c") is None

    in_cluster(work)


def test_the_newest_default_counts_and_of_equals_the_first_by_name() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "y", **{DEFAULT: "true"})
        await storage_class(cluster, "x", **{OLD_DEFAULT: "true"})
        await storage_class(cluster, "a", **{DEFAULT: "yes"})
        assert await claimed(cluster, "c") == "x"
        await cluster.asks.server.clock.advance(5)  # type: ignore[attr-defined]
        await storage_class(cluster, "z", **{DEFAULT: "true"})
        assert await claimed(cluster, "d") == "z"

    in_cluster(work)


def test_who_names_a_class_or_wants_none_gets_that() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "a", **{DEFAULT: "true"})
        assert await claimed(cluster, "c", storageClassName="") == ""
        assert await claimed(cluster, "d", storageClassName="b") == "b"
        assert await claimed(cluster, "e", {"volume.beta.kubernetes.io/storage-class": "b"}) is None

    in_cluster(work)
