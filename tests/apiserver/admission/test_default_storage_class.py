from typing import Any

from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster

CLASSES, CLAIMS = "/apis/storage.k8s.io/v1/storageclasses", f"{NAMESPACE}/persistentvolumeclaims"
DEFAULT, BETA_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


async def storage_class(cluster: Cluster, name: str, **annotations: str) -> None:
    await cluster.make(CLASSES, {"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"})


async def class_of_new_claim(
    cluster: Cluster, name: str, annotations: dict[str, str] | None = None, **spec: Any
) -> Any:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}, **spec}
    value = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": claim_spec}
    return (await cluster.make(CLAIMS, value))["spec"].get("storageClassName")


def test_without_a_default_a_claim_has_no_class() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "a")
        assert await class_of_new_claim(cluster, "c") is None

    run_in_cluster(work)


def test_newest_default_class_is_used_and_ties_are_broken_by_name() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "y", **{DEFAULT: "true"})
        await storage_class(cluster, "x", **{BETA_DEFAULT: "true"})
        await storage_class(cluster, "a", **{DEFAULT: "yes"})
        assert await class_of_new_claim(cluster, "c") == "x"
        await cluster.client.server.clock.advance(5)  # type: ignore[attr-defined]
        await storage_class(cluster, "z", **{DEFAULT: "true"})
        assert await class_of_new_claim(cluster, "d") == "z"

    run_in_cluster(work)


def test_claim_with_class_empty_class_or_class_annotation_is_not_changed() -> None:
    async def work(cluster: Cluster) -> None:
        await storage_class(cluster, "a", **{DEFAULT: "true"})
        assert await class_of_new_claim(cluster, "c", storageClassName="") == ""
        assert await class_of_new_claim(cluster, "d", storageClassName="b") == "b"
        assert await class_of_new_claim(cluster, "e", {"volume.beta.kubernetes.io/storage-class": "b"}) is None

    run_in_cluster(work)
