"""Conformance tests of sig-api-machinery for resource quotas. The first paragraph of a docstring is the official test
name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from sampan.host.clock import VirtualClock
from sampan.testing import Cluster
from tests.e2e.conformance.api import STRATEGIC, Api, ApiError, Value, Watch, contains

DEVICE = "example.com/dongle"
HARD = {
    "pods": "5",
    "services": "10",
    "services.nodeports": "1",
    "services.loadbalancers": "1",
    "replicationcontrollers": "10",
    "resourcequotas": "1",
    "cpu": "1",
    "memory": "500Mi",
    "configmaps": "10",
    "secrets": "10",
    "persistentvolumeclaims": "10",
    "requests.storage": "10Gi",
    "ephemeral-storage": "50Gi",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "10",
    "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
    "count/replicasets.apps": "5",
    f"requests.{DEVICE}": "3",
}
SPEC = {"containers": [{"name": "pause", "image": "pause"}], "nodeSelector": {"x-test.k8s.io/unsatisfiable": "no"}}


@dataclass(frozen=True, slots=True)
class QuotaCluster:
    """A namespace of a cluster on a virtual clock: the usage of a quota is lowered after a delay."""

    api: Api
    cluster: Cluster
    clock: VirtualClock

    def advance(self) -> None:
        self.cluster.run(self.clock.advance(2))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(clock=VirtualClock()) as cluster:
        yield cluster


@pytest.fixture
def quota_cluster(cluster: Cluster) -> Iterator[QuotaCluster]:
    assert isinstance(cluster.clock, VirtualClock)
    with cluster.namespace() as namespace:
        api = Api(cluster, namespace)
        yield QuotaCluster(api, cluster, cluster.clock)
        api.close()


@pytest.fixture
def api(quota_cluster: QuotaCluster) -> Api:
    return quota_cluster.api


class Quota:
    def __init__(self, quota_cluster: QuotaCluster, name: str, hard: Value, scopes: Sequence[str] = ()) -> None:
        self._scene, self.name, self.hard = quota_cluster, name, hard
        self.objects = quota_cluster.api.for_resource("resourcequotas")
        self.objects.create(name, spec={"hard": hard, "scopes": list(scopes)})

    def wait_for_use(self, **used: str) -> Value:
        """Wait until the status shows the hard limits and this usage, and return the status."""
        expected = {"hard": self.hard, "used": {_name(name): amount for name, amount in used.items()}}
        for _ in range(30):
            status: Value = self.objects.get(self.name).get("status", {})
            if contains(status, expected):
                return status
            self._scene.advance()
        raise AssertionError(f"{status} instead of {expected}")

    def history(self) -> Any:
        return self.objects.watch(fieldSelector=f"metadata.name={self.name}")

    def check_never_used(self, events: Watch) -> None:
        """Check that no event so far has counted a pod."""
        self.objects.patch(self.name, {"metadata": {"annotations": {"the": "end"}}})
        while True:
            _, obj = events.read_event()
            assert obj.get("status", {}).get("used", {}).get("pods", "0") == "0"
            if obj["metadata"].get("annotations", {}).get("the") == "end":
                return


def _name(word: str) -> str:
    """Return the resource name of a keyword argument, which cannot contain dots and slashes."""
    return word.replace("__", "/").replace("_", ".")


def pod(requests: Value | None = None, limits: Value | None = None, **spec: Any) -> Value:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {**SPEC, "containers": [{"name": "pause", "image": "pause", "resources": resources}], **spec}


def test_status_is_calculated(quota_cluster: QuotaCluster) -> None:
    """[sig-api-machinery] ResourceQuota should create a ResourceQuota and ensure its status is promptly calculated.
    [Conformance]"""
    status = Quota(quota_cluster, "test-quota", HARD).wait_for_use(resourcequotas="1", pods="0", configmaps="1")
    assert status["hard"] == HARD
    assert set(status["used"]) == set(HARD)


@pytest.mark.parametrize(
    ("plural", "version", "counted", "before", "content"),
    [
        pytest.param(
            *("services", "v1", "services", 0, {"spec": {"ports": [{"port": 80}]}}),
            id="[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a service.",
        ),
        pytest.param(
            *("secrets", "v1", "secrets", 0, {"data": {"data-1": "dmFsdWUtMQo="}}),
            id="[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a secret.",
        ),
        pytest.param(
            *("configmaps", "v1", "configmaps", 1, {"data": {"a": "b"}}),
            id="[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a configMap.",
        ),
        pytest.param(
            *("replicationcontrollers", "v1", "replicationcontrollers", 0, {"spec": {"replicas": 0}}),
            id="[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a replication "
            "controller.",
        ),
        pytest.param(
            *("replicasets", "apps/v1", "count/replicasets.apps", 0, {"spec": {"replicas": 0}}),
            id="[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a replica set.",
        ),
    ],
)
def test_object_count_follows_creation_and_deletion(
    api: Api, quota_cluster: QuotaCluster, plural: str, version: str, counted: str, before: int, content: Value
) -> None:
    """The quota allows one object more than exist already."""
    if "replicas" in content.get("spec", {}):
        selector = {"name": "x"} if version == "v1" else {"matchLabels": {"name": "x"}}
        template = {"metadata": {"labels": {"name": "x"}}, "spec": SPEC}
        content = {"spec": {**content["spec"], "selector": selector, "template": template}}
    quota = Quota(quota_cluster, "test-quota", {**HARD, counted: str(before + 1)})
    counts = counted.replace("/", "__").replace(".", "_")
    quota.wait_for_use(resourcequotas="1", **{counts: str(before)})
    objects = api.for_resource(plural, version)
    objects.create("first", **content)
    quota.wait_for_use(resourcequotas="1", **{counts: str(before + 1)})
    with pytest.raises(ApiError) as refused:
        objects.create("second", **content)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert f"exceeded quota: test-quota, requested: {counted}=1, used: {counted}={before + 1}" in str(refused.value)
    objects.delete("first", propagationPolicy="Background")
    quota.wait_for_use(resourcequotas="1", **{counts: str(before)})
    objects.create("second", **content)


def test_node_ports_and_load_balancers_are_counted(api: Api, quota_cluster: QuotaCluster) -> None:
    """An addition to the official test "capture the life of a service"."""
    quota, services = Quota(quota_cluster, "test-quota", HARD), api.for_resource("services")
    quota.wait_for_use(services="0", services_nodeports="0", services_loadbalancers="0")
    services.create("port", spec={"type": "NodePort", "ports": [{"port": 80}]})
    quota.wait_for_use(services="1", services_nodeports="1", services_loadbalancers="0")
    balanced = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    with pytest.raises(ApiError, match=r"exceeded quota: test-quota, requested: services\.nodeports=1"):
        services.create("balanced", spec=balanced)
    services.delete("port")
    quota.wait_for_use(services="0", services_nodeports="0")
    services.create("balanced", spec={**balanced, "allocateLoadBalancerNodePorts": False})
    quota.wait_for_use(services="1", services_nodeports="0", services_loadbalancers="1")


def test_pod_resources_are_counted(api: Api, quota_cluster: QuotaCluster) -> None:
    """[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a pod. [Conformance]"""
    quota, pods = Quota(quota_cluster, "test-quota", HARD), api.for_resource("pods")
    quota.wait_for_use(resourcequotas="1", pods="0")
    device = {DEVICE: "2"}
    requests = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", **device}
    pods.create("test-pod", spec=pod(requests, device))
    used = {"pods": "1", "cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", f"requests.{DEVICE}": "2"}
    assert contains(quota.wait_for_use(resourcequotas="1", pods="1")["used"], used)

    with pytest.raises(
        ApiError, match="exceeded quota: test-quota, requested: cpu=600m, used: cpu=500m, limited: cpu=1"
    ):
        pods.create("fail-pod", spec=pod({"cpu": "600m", "memory": "100Mi", "ephemeral-storage": "1Gi"}))
    with pytest.raises(ApiError, match="exceeded quota: test-quota"):
        pods.create(
            "fail-pod", spec=pod({"cpu": "500m", "memory": "100Mi", "ephemeral-storage": "1Gi", **device}, device)
        )
    with pytest.raises(ApiError) as refused:
        pods.create("fail-pod", spec=pod({"cpu": "100m"}))
    assert "failed quota: test-quota: must specify memory for: pause" in str(refused.value)
    other = pod({"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "10Gi"})["containers"][0]["resources"]
    with pytest.raises(ApiError) as refused:
        pods.change("test-pod", lambda obj: obj["spec"]["containers"][0].update(resources=other))
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert contains(quota.wait_for_use(pods="1")["used"], used)
    pods.delete("test-pod", gracePeriodSeconds=0)
    none = {**dict.fromkeys(used, "0"), "resourcequotas": "1"}
    assert contains(quota.wait_for_use(pods="0", cpu="0")["used"], none)


def test_update_and_deletion(api: Api) -> None:
    """[sig-api-machinery] ResourceQuota should be able to update and delete ResourceQuota. [Conformance]"""
    quotas = api.for_resource("resourcequotas")
    quota = quotas.create("test-quota", spec={"hard": {"cpu": "1", "memory": "500Mi"}})
    assert quota["spec"]["hard"] == quotas.get("test-quota")["spec"]["hard"] == {"cpu": "1", "memory": "500Mi"}
    more = {"cpu": "2", "memory": "1Gi"}
    assert quotas.change("test-quota", lambda obj: obj["spec"].update(hard=more))["spec"]["hard"] == more
    assert quotas.get("test-quota")["spec"]["hard"] == more
    quotas.delete("test-quota")
    assert quotas.is_gone("test-quota")


def test_lifecycle(api: Api) -> None:
    """[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]"""
    quotas, mine = api.for_resource("resourcequotas"), f"e2e={api.namespace}"
    quotas.create("e2e-quota", {"e2e": api.namespace}, spec={"hard": {"cpu": "500m", "memory": "500Mi"}})
    (quota,) = api.get(quotas.all_namespaces_path, labelSelector=mine)["items"]
    assert quota["spec"]["hard"] == {"cpu": "500m", "memory": "500Mi"}
    patch = {"metadata": {"labels": {"e2e-quota": "patched"}}, "spec": {"hard": {"memory": "750Mi"}}}
    patched = quotas.patch("e2e-quota", patch, content=STRATEGIC)
    assert patched["spec"]["hard"] == {"cpu": "500m", "memory": "750Mi"}
    assert patched["metadata"]["labels"]["e2e-quota"] == "patched"
    quotas.delete_all("e2e-quota=patched")
    assert quotas.names(mine, path=quotas.all_namespaces_path) == []


def test_status(api: Api, quota_cluster: QuotaCluster) -> None:
    """[sig-api-machinery] ResourceQuota should apply changes to a resourcequota status [Conformance]"""
    quotas, first, second = (
        api.for_resource("resourcequotas"),
        {"cpu": "500m", "memory": "500Mi"},
        {"cpu": "1", "memory": "1Gi"},
    )
    quota = Quota(quota_cluster, "q", first)
    updated = quotas.change("q", lambda obj: obj.update(status={"hard": first}), "status")
    assert updated["status"]["hard"] == updated["spec"]["hard"] == first
    quota.wait_for_use()
    assert quotas.patch("q", {"spec": {"hard": second}}, content=STRATEGIC)["spec"]["hard"] == second
    patched = quotas.patch("q", {"status": {"hard": second}}, "status", content=STRATEGIC)
    assert patched["status"]["hard"] == patched["spec"]["hard"] == second
    with quotas.watch(fieldSelector="metadata.name=q") as events:
        assert events.wait_for("ADDED")["status"]["hard"] == second
        assert quotas.get("q", "status")["status"]["hard"] == second
        third = {"cpu": "2", "memory": "2Gi"}
        again = quotas.patch("q", {"status": {"hard": third}}, "status", content=STRATEGIC)
        assert (again["status"]["hard"], again["spec"]["hard"]) == (third, second)
        events.wait_for("MODIFIED", lambda obj: obj["status"]["hard"] == third and obj["spec"]["hard"] == second)
    quota.hard = second
    quota.wait_for_use()


SCOPED = {"pods": "5", "requests.cpu": "1", "requests.memory": "500Mi", "limits.cpu": "2", "limits.memory": "1Gi"}
MODEST = {"cpu": "500m", "memory": "200Mi"}, {"cpu": "1", "memory": "400Mi"}
MODEST_USE = {"requests_cpu": "500m", "requests_memory": "200Mi", "limits_cpu": "1", "limits_memory": "400Mi"}


def check_counted_by_one_quota(api: Api, quota: Quota, other: Quota, spec: Value, used: Value) -> None:
    """Create and delete a pod that must be counted by `quota` and not by `other`."""
    pods = api.for_resource("pods")
    with other.history() as events:
        pods.create("test-pod", spec=spec)
        quota.wait_for_use(pods="1", **used)
        pods.delete("test-pod", gracePeriodSeconds=0)
        quota.wait_for_use(pods="0", **dict.fromkeys(used, "0"))
        other.check_never_used(events)


def test_terminating_scopes(api: Api, quota_cluster: QuotaCluster) -> None:
    """[sig-api-machinery] ResourceQuota should verify ResourceQuota with terminating scopes. [Conformance]"""
    terminating = Quota(quota_cluster, "quota-terminating", SCOPED, ["Terminating"])
    lasting = Quota(quota_cluster, "quota-not-terminating", SCOPED, ["NotTerminating"])
    for quota in (terminating, lasting):
        quota.wait_for_use(pods="0", **dict.fromkeys(MODEST_USE, "0"))
    check_counted_by_one_quota(api, lasting, terminating, pod(*MODEST), MODEST_USE)
    check_counted_by_one_quota(api, terminating, lasting, pod(*MODEST, activeDeadlineSeconds=3600), MODEST_USE)


def test_best_effort_scopes(api: Api, quota_cluster: QuotaCluster) -> None:
    """[sig-api-machinery] ResourceQuota should verify ResourceQuota with best effort scope. [Conformance]"""
    best = Quota(quota_cluster, "quota-besteffort", {"pods": "5"}, ["BestEffort"])
    other = Quota(quota_cluster, "quota-not-besteffort", {"pods": "5"}, ["NotBestEffort"])
    for quota in (best, other):
        quota.wait_for_use(pods="0")
    check_counted_by_one_quota(api, best, other, pod(), {})
    check_counted_by_one_quota(api, other, best, pod(*MODEST), {})
