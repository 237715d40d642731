"""Admission plugins that are disabled by default."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.types.meta_v1 import OwnerReference
from sampan.apiserver.admission.owner_references_permission_enforcement import find_newly_blocking_owners
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.admission.pod_node_selector import ANNOTATION, labels_of
from sampan.apiserver.admission.pod_toleration_restriction import ALLOWED, DEFAULTS
from tests.apiserver.cluster import NAMESPACE, PODS, Cluster
from tests.apiserver.in_process_server import in_process_client, run
from tests.apiserver.pods import spec_with_container


def run_with_plugin(name: str, work: Callable[[Cluster], Awaitable[None]], **annotations: str) -> None:
    """Run `work` in a cluster in which this plugin is enabled and the namespace has these annotations."""

    async def main() -> None:
        async with in_process_client(plugins=default_plugins(enabled=[name])) as client:
            cluster = Cluster(client)
            await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns", "annotations": annotations}})
            await cluster.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
            await work(cluster)

    run(main())


def test_always_pull_images_sets_pull_policy_of_containers() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod(spec=spec_with_container(imagePullPolicy="Never"))
        assert created["spec"]["containers"][0]["imagePullPolicy"] == "Always"
        assert (await cluster.patch(f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}})).code == 200

    run_with_plugin("AlwaysPullImages", work)


def test_required_anti_affinity_is_limited_to_hostname_topology_key() -> None:
    def spec(key: str) -> dict[str, Any]:
        term = {"topologyKey": key, "labelSelector": {}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    async def work(cluster: Cluster) -> None:
        await cluster.create_pod("fine", spec("kubernetes.io/hostname"))
        assert await cluster.try_create_pod(spec("zone")) == (
            403,
            'pods "a" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but '
            "only key kubernetes.io/hostname is allowed",
        )

    run_with_plugin("LimitPodHardAntiAffinityTopology", work)


def test_toleration_is_added_for_extended_resource() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod(spec=spec_with_container(resources={"limits": {"example.com/gpu": "1"}}))
        expected = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        assert expected in created["spec"]["tolerations"]

    run_with_plugin("ExtendedResourceToleration", work)


def test_service_with_external_ips_is_denied() -> None:
    async def work(cluster: Cluster) -> None:
        path, spec = f"{NAMESPACE}/services", {"ports": [{"port": 1}]}
        reply = await cluster.send(
            "POST", path, {"metadata": {"name": "s"}, "spec": {**spec, "externalIPs": ["192.0.2.1"]}}
        )
        assert reply.json["message"] == (
            'services "s" is forbidden: Use of external IPs is denied by admission control'
        )
        await cluster.make(path, {"metadata": {"name": "s"}, "spec": spec})

    run_with_plugin("DenyServiceExternalIPs", work)


def test_namespace_auto_provision_creates_missing_namespace() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make("/api/v1/namespaces/new/configmaps", {"metadata": {"name": "m"}})
        namespace = (await cluster.send("GET", "/api/v1/namespaces/new")).json
        assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "new"}
        assert namespace["status"]["phase"] == "Active"
        assert namespace["spec"]["finalizers"] == ["kubernetes"]

    run_with_plugin("NamespaceAutoProvision", work)


def test_namespace_exists_rejects_delete_only_if_namespace_is_missing() -> None:
    async def work(cluster: Cluster) -> None:
        path = f"{NAMESPACE}/configmaps"
        for name in ("a", "b"):
            await cluster.make(path, {"metadata": {"name": name}})
        assert (await cluster.send("DELETE", f"{path}/a")).code == 200
        namespaces = cluster.registry.open_store_of("", "v1", "Namespace")
        await namespaces.backend.delete(namespaces.key("", "ns"))
        await namespaces.cacher.get("", "ns")  # the cache is as fresh as the store
        reply = await cluster.send("DELETE", f"{path}/b")
        assert (reply.code, reply.json["message"]) == (404, 'namespaces "ns" not found')
        assert (await cluster.send("GET", f"{path}/b")).code == 200

    run_with_plugin("NamespaceExists", work)


def test_node_selector_of_namespace_is_merged_into_pod() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod("b", {"nodeSelector": {"mine": "1"}})
        assert created["spec"]["nodeSelector"] == {"mine": "1", "kind": "fast"}
        assert await cluster.try_create_pod({"nodeSelector": {"kind": "slow"}}) == (
            403,
            'pods "a" is forbidden: pod node label selector conflicts with its namespace node label selector',
        )

    run_with_plugin("PodNodeSelector", work, **{ANNOTATION: "kind=fast"})


def test_node_selector_text_is_parsed() -> None:
    assert labels_of("a=b, c = d") == {"a": "b", "c": "d"}
    assert labels_of("") == {}


def test_namespace_default_tolerations_are_added_and_whitelist_is_enforced() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod("b")
        assert {"key": "mine", "operator": "Exists"} in created["spec"]["tolerations"]
        code, text = await cluster.try_create_pod({"tolerations": [{"key": "other", "operator": "Exists"}]})
        assert (code, text.endswith("conflict with its namespace whitelist")) == (500, True)

    allowed = '[{"key": "mine", "operator": "Exists"}, {"effect": "NoExecute", "operator": "Exists"}]'
    run_with_plugin(
        "PodTolerationRestriction", work, **{DEFAULTS: '[{"key": "mine", "operator": "Exists"}]', ALLOWED: allowed}
    )


def test_always_deny_rejects_writes() -> None:
    async def main() -> None:
        async with in_process_client(plugins=default_plugins(enabled=["AlwaysDeny", "AlwaysAdmit"])) as client:
            reply = await Cluster(client).send("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
            assert (reply.code, reply.json["message"]) == (
                403,
                'namespaces "ns" is forbidden: admission control is denying all modifications',
            )

    run(main())


@pytest.mark.parametrize(
    ("old", "new", "blocking"),
    [
        ([], [("a", True), ("b", False)], ["a"]),
        ([("a", True)], [("a", True)], []),
        ([("a", False)], [("a", True)], ["a"]),
        ([("a", True)], [], []),
    ],
)
def test_newly_blocking_owner_references_are_found(
    old: list[tuple[str, bool]], new: list[tuple[str, bool]], blocking: list[str]
) -> None:
    def owners(references: list[tuple[str, bool]]) -> list[OwnerReference]:
        return [OwnerReference(uid=uid, blockOwnerDeletion=blocks) for uid, blocks in references]

    assert [owner.uid for owner in find_newly_blocking_owners(owners(old), owners(new))] == blocking
