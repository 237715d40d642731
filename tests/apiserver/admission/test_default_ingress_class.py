from typing import Any

from tests.apiserver.cluster import Cluster, run_in_cluster

NETWORKING = "/apis/networking.k8s.io/v1"
DEFAULT = "ingressclass.kubernetes.io/is-default-class"


async def ingress(cluster: Cluster, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    value = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"defaultBackend": backend, **spec}}
    created = await cluster.make(f"{NETWORKING}/namespaces/ns/ingresses", value)
    return created["spec"].get("ingressClassName")


def test_default_class_is_set_only_on_ingress_without_class_or_annotation() -> None:
    async def work(cluster: Cluster) -> None:
        assert await ingress(cluster, "a") is None
        for name, word in (("one", "true"), ("two", "false")):
            value = {"metadata": {"name": name, "annotations": {DEFAULT: word}}, "spec": {"controller": "e.com/c"}}
            await cluster.make(f"{NETWORKING}/ingressclasses", value)
        assert await ingress(cluster, "b") == "one"
        assert await ingress(cluster, "c", ingressClassName="two") == "two"
        assert await ingress(cluster, "d", {"kubernetes.io/ingress.class": "x"}) is None

    run_in_cluster(work)
