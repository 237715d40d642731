import asyncio
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Pod, ResourceQuota, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.quantity import parse
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.resource_quota import (
    QuotaCharge,
    QuotaCharger,
    ResourceQuotaAdmission,
    add_charges,
)
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.storage.memory import MemoryBackend
from tests.api_server import running_api_server
from tests.apiserver.cluster import NAMESPACE, PODS, Cluster, run_in_cluster
from tests.apiserver.pods import pod, spec_with_container

QUOTAS = f"{NAMESPACE}/resourcequotas"
QUOTA_CHARGE, BACKEND_PUT = QuotaCharger.charge, MemoryBackend.put


def quota(hard: dict[str, str], used: dict[str, str]) -> ResourceQuota:
    value = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}
    return codec.from_value(value, ResourceQuota)


def charge(is_limited: bool = True, **amounts: str) -> QuotaCharge:
    return QuotaCharge(amounts={name: parse(text) for name, text in amounts.items()}, is_limited=is_limited)


def test_charges_within_quota_are_added_and_exceeding_charges_rejected() -> None:
    result = add_charges(
        quota({"cpu": "2", "pods": "9"}, {"cpu": "1", "pods": "3"}),
        [charge(cpu="500m", pods="1"), charge(cpu="600m", pods="1"), charge(cpu="500m", memory="1Gi")],
    )
    assert result.used == {"cpu": "2", "pods": "4"}
    assert result.refusals == {1: "exceeded quota: q, requested: cpu=600m, used: cpu=1500m, limited: cpu=2"}


def test_negative_charge_is_never_rejected_and_usage_stops_at_zero() -> None:
    result = add_charges(quota({"pods": "1"}, {"pods": "3"}), [charge(pods="1"), charge(is_limited=False, pods="-5")])
    assert result.used == {"pods": "0"}
    assert list(result.refusals) == [0]


async def make_quota(cluster: Cluster, name: str, hard: dict[str, str], **spec: Any) -> None:
    """Create a quota with the status that the quota controller would write."""
    created = await cluster.make(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    created["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    assert (await cluster.send("PUT", f"{QUOTAS}/{name}/status", created)).code == 200


async def get_usage(cluster: Cluster, name: str = "q") -> Any:
    return (await cluster.send("GET", f"{QUOTAS}/{name}")).json["status"]["used"]


def test_objects_are_charged_until_the_quota_is_used_up() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"configmaps": "1", "count/configmaps": "5", "pods": "1"})
        path = f"{NAMESPACE}/configmaps"
        await cluster.make(path, {"metadata": {"name": "a"}})
        reply = await cluster.send("POST", path, {"metadata": {"name": "b"}})
        assert reply.code == 403
        assert reply.json["message"] == (
            'configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, '
            "limited: configmaps=1"
        )
        assert (await cluster.send("POST", f"{PODS}?dryRun=All", {"metadata": {"name": "d"}, **SPEC})).code == 201
        assert await get_usage(cluster) == {"configmaps": "1", "count/configmaps": "1", "pods": "0"}

    run_in_cluster(work)


SPEC = {"spec": spec_with_container()}


def test_no_quota_is_charged_if_another_quota_rejects_the_pod() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "a", {"pods": "5"})
        await make_quota(cluster, "b", {"pods": "0"})
        assert (await cluster.try_create_pod({}))[0] == 403
        assert await get_usage(cluster, "a") == {"pods": "0"}

    run_in_cluster(work)


def test_quota_without_status_is_ignored_but_status_without_used_rejects_pods() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.make(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
        await cluster.create_pod("a")
        created["status"] = {"hard": {"pods": "5"}}
        assert (await cluster.send("PUT", f"{QUOTAS}/q/status", created)).code == 200
        assert await cluster.try_create_pod({}, name="b") == (
            403,
            'pods "b" is forbidden: status unknown for quota: q, resources: pods',
        )

    run_in_cluster(work)


def test_update_is_charged_only_for_the_increase() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"services": "1", "services.nodeports": "1"})
        path, ports = f"{NAMESPACE}/services", [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
        await cluster.make(path, {"metadata": {"name": "s"}, "spec": {"ports": ports[:1]}})
        assert (await cluster.patch(f"{path}/s", {"spec": {"type": "NodePort"}})).code == 200
        assert await get_usage(cluster) == {"services": "1", "services.nodeports": "1"}
        assert (await cluster.patch(f"{path}/s", {"spec": {"ports": ports}})).code == 403

    run_in_cluster(work)


def test_concurrent_creates_do_not_exceed_quota() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"pods": "20"})
        bodies = [{"metadata": {"name": f"p{index}"}, **SPEC} for index in range(50)]
        replies = await asyncio.gather(*(cluster.send("POST", PODS, body) for body in bodies))
        assert Counter(reply.code for reply in replies) == {201: 20, 403: 30}
        assert await get_usage(cluster) == {"pods": "20"}

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("is_written", "used_pods"), [(False, "9"), (True, "18")], ids=["before the write", "after the write"]
)
def test_cancelled_create_that_charges_the_quota_for_others_does_not_block_them(
    is_written: bool, used_pods: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of ten requests writes the quota alone, the second one for the other eight too. If it is cancelled,
    they write again. Charges that were written twice stay until the resource quota controller recomputes the usage."""
    is_first_writing, are_all_waiting, is_second_writing = asyncio.Event(), asyncio.Event(), asyncio.Event()
    charges, writers = 0, list[asyncio.Task[Any] | None]()

    async def charge(charger: QuotaCharger, *args: Any) -> str:
        nonlocal charges
        charges += 1
        if charges == 10:
            are_all_waiting.set()  # the event loop resumes the first write only after this request waits too
        return await QUOTA_CHARGE(charger, *args)

    async def put(backend: MemoryBackend, key: str, value: bytes, **options: Any) -> int:
        """Write the value, but let the first write of the quota wait for all requests, and the second one hang."""
        if "/resourcequotas/" in key:
            writers.append(asyncio.current_task())
            if len(writers) == 1:
                is_first_writing.set()
                await are_all_waiting.wait()
            elif len(writers) == 2:
                if is_written:
                    await BACKEND_PUT(backend, key, value, **options)
                is_second_writing.set()
                await asyncio.Event().wait()
        return await BACKEND_PUT(backend, key, value, **options)

    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"pods": "20"})
        bodies = [{"metadata": {"name": f"p{index}"}, **SPEC} for index in range(10)]
        monkeypatch.setattr(QuotaCharger, "charge", charge)
        monkeypatch.setattr(MemoryBackend, "put", put)
        async with asyncio.timeout(60):
            requests = [asyncio.ensure_future(cluster.send("POST", PODS, bodies[0]))]
            await is_first_writing.wait()
            requests += [asyncio.ensure_future(cluster.send("POST", PODS, body)) for body in bodies[1:]]
            await is_second_writing.wait()
            (cancelled,) = (request for request in requests if request is writers[1])
            cancelled.cancel()
            await asyncio.wait(requests)
        assert [request for request in requests if request.cancelled()] == [cancelled]
        assert {request.result().code for request in requests if request is not cancelled} == {201}
        assert await get_usage(cluster) == {"pods": used_pods}

    run_in_cluster(work)


@pytest.mark.parametrize("servers", [2, 3])
async def test_servers_with_shared_store_do_not_exceed_quota(servers: int) -> None:
    clock = RealClock()
    config = ServerConfig(secure_port=0, advertise_address="192.0.2.1")
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(MemoryBackend(clock=clock))
        running = [
            await stack.enter_async_context(ApiServer(config=config, backend=backend, clock=clock))
            for _ in range(servers)
        ]
        clients = [Client(transport=server.loopback(), clock=clock, component="test") for server in running]
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await clients[0].for_kind(ServiceAccount).create(account)
        quotas = clients[0].for_kind(ResourceQuota)
        resource_quota = await quotas.create(
            codec.from_value(
                {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "20"}}}, ResourceQuota
            )
        )
        value = codec.from_value(codec.to_value(resource_quota), ResourceQuota)
        value.status.hard, value.status.used = {"pods": "20"}, {"pods": "0"}
        await quotas.update_status(value)
        outcomes = await asyncio.gather(*(_create(clients[index % servers], index) for index in range(50)))
        refusals = Counter(outcomes)
        assert refusals.pop("") == 20
        assert refusals.total() == 30
        assert all("exceeded quota: q" in text for text in refusals)
        assert len((await clients[-1].for_kind(Pod).list()).items) == 20


async def _create(client: Client, index: int) -> str:
    """Create a pod and return the message of its rejection, or an empty string."""
    new_pod = pod({"automountServiceAccountToken": False})
    new_pod.metadata = ObjectMeta(name=f"p{index}", namespace="default")
    try:
        await client.for_kind(Pod).create(new_pod)
    except errors.Forbidden as refusal:
        return refusal.message
    return ""


LIMITED: dict[str, Any] = {
    "kind": "ResourceQuotaConfiguration",
    "apiVersion": "apiserver.config.k8s.io/v1",
    "limitedResources": [
        {"resource": "persistentvolumeclaims", "matchContains": ["gold.storageclass.storage.k8s.io"]},
        {
            "resource": "pods",
            "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["critical"]}],
        },
    ],
}


def test_limited_resources_require_a_matching_quota() -> None:
    async def work(cluster: Cluster) -> None:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await cluster.make(classes, {"metadata": {"name": "critical"}, "value": 1000})
        critical = {"priorityClassName": "critical"}
        assert await cluster.try_create_pod(critical) == (
            403,
            'pods "a" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [critical]}]',
        )
        await cluster.create_pod("plain")
        claim = {
            "metadata": {"name": "c"},
            "spec": {
                "storageClassName": "gold",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        claims = f"{NAMESPACE}/persistentvolumeclaims"
        reply = await cluster.send("POST", claims, claim)
        name = "gold.storageclass.storage.k8s.io/requests.storage"
        assert reply.json["message"] == (
            'persistentvolumeclaims "c" is forbidden: insufficient quota to consume: '
            f"gold.storageclass.storage.k8s.io/persistentvolumeclaims,{name}"
        )
        await make_quota(cluster, "gold", {name: "2Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "9"})
        await cluster.make(claims, claim)
        match = {"scopeName": "PriorityClass", "operator": "In", "values": ["critical"]}
        await make_quota(cluster, "critical", {"pods": "1"}, scopeSelector={"matchExpressions": [match]})
        await cluster.create_pod("b", critical)
        assert (await cluster.try_create_pod(critical))[0] == 403

    run_in_cluster(work, {"ResourceQuota": LIMITED})


def test_invalid_configurations_are_rejected() -> None:
    for change in ({"kind": "Odd"}, {"limitedResources": [{"apiGroup": "x"}]}, {"more": 1}):
        with pytest.raises(ConfigurationError, match="ResourceQuota: "):
            ResourceQuotaAdmission.from_config({**LIMITED, **change})


async def set_quota(cluster: Cluster, hard: dict[str, str], used: dict[str, str]) -> None:
    """Write a status as the quota controller would after the quota was lowered below its usage."""
    value = (await cluster.send("GET", f"{QUOTAS}/q")).json
    value["status"] = {"hard": hard, "used": used}
    assert (await cluster.send("PUT", f"{QUOTAS}/q/status", value)).code == 200


def test_reductions_are_allowed_above_the_limit_and_not_released_by_admission() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"services.loadbalancers": "3"})
        path = f"{NAMESPACE}/services"
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await cluster.make(path, {"metadata": {"name": "s"}, "spec": spec})
        await set_quota(cluster, {"services.loadbalancers": "1"}, {"services.loadbalancers": "3"})
        patch = {"spec": {"type": "ClusterIP"}, "metadata": {"labels": {"a": "b"}}}
        reply = await cluster.send("PATCH", f"{path}/s", patch, "application/merge-patch+json")
        assert reply.code == 200, reply.json
        assert await get_usage(cluster) == {"services.loadbalancers": "3"}

    run_in_cluster(work)


def test_use_that_does_not_grow_is_allowed_above_the_limit() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"services": "3", "services.nodeports": "1"})
        path = f"{NAMESPACE}/services"
        await cluster.make(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        await set_quota(
            cluster, {"services": "1", "services.nodeports": "1"}, {"services": "3", "services.nodeports": "0"}
        )
        assert (await cluster.patch(f"{path}/s", {"spec": {"type": "NodePort"}})).code == 200
        assert await get_usage(cluster) == {"services": "3", "services.nodeports": "1"}

    run_in_cluster(work)


def test_dry_run_is_rejected_if_the_quota_is_used_up() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "q", {"configmaps": "0"})
        reply = await cluster.send("POST", f"{NAMESPACE}/configmaps?dryRun=All", {"metadata": {"name": "a"}})
        assert reply.code == 403
        assert "exceeded quota: q" in reply.json["message"]

    run_in_cluster(work)


def test_charge_is_released_if_another_request_has_used_up_the_next_quota() -> None:
    """All requests find both quotas unused, so they charge the first one; the second one suffices for one of them."""

    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "a", {"configmaps": "9"})
        await make_quota(cluster, "b", {"configmaps": "1"})
        bodies = [{"metadata": {"name": f"c{index}"}} for index in range(5)]
        replies = await asyncio.gather(*(cluster.send("POST", f"{NAMESPACE}/configmaps", body) for body in bodies))
        assert Counter(reply.code for reply in replies) == {201: 1, 403: 4}
        assert await get_usage(cluster, "a") == {"configmaps": "1"}
        assert await get_usage(cluster, "b") == {"configmaps": "1"}

    run_in_cluster(work)


def test_exhausted_quota_is_tried_before_others_are_charged() -> None:
    async def work(cluster: Cluster) -> None:
        await make_quota(cluster, "a", {"configmaps": "5"})
        await make_quota(cluster, "b", {"configmaps": "0"})
        before = (await cluster.send("GET", f"{QUOTAS}/a")).json
        assert (await cluster.send("POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "c"}})).code == 403
        assert (await cluster.send("GET", f"{QUOTAS}/a")).json == before

    run_in_cluster(work)


async def test_charges_leave_nothing_in_memory() -> None:
    charger = QuotaCharger()
    async with running_api_server() as server:
        store = server.registry.open_store_of("", "v1", "ResourceQuota")

        async def charge_quotas(prefix: str) -> None:
            for number in range(300):
                assert await charger.charge(store, "default", f"{prefix}-{number}-{'q' * 500}", charge(pods="1")) == ""

        await charge_quotas("first")
        tracemalloc.start()
        try:
            await charge_quotas("second")
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()
