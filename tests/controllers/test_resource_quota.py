"""resourcequota-controller."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.core_v1 import ConfigMap, Pod, ResourceQuota, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.quantity import parse
from sampan.controllers.resource_quota import (
    LISTED_S,
    SETTLE_S,
    ResourceQuotaController,
    counted_resources,
    status_for,
    usage_of,
)
from sampan.machinery import errors
from sampan.machinery.client.options import DeleteParameters
from sampan.machinery.quota import evaluator_of
from tests.apiserver.pods import pod, spec_with_container
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster

NAME = ResourceQuotaController.name


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> ResourceQuota:
    value = {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used} if used is not None else {},
    }
    return codec.from_value(value, ResourceQuota)


def test_only_resources_named_in_the_quota_are_counted() -> None:
    hard = {"requests.cpu": "1", "count/deployments.apps": "1", "secrets": "1", "count/events": "1"}
    assert counted_resources(quota(hard), evaluator_of) == {("", "pods"), ("apps", "deployments"), ("", "secrets")}


def test_usage_is_the_sum_of_objects_in_scope() -> None:
    evaluator = evaluator_of("", "pods")
    assert evaluator is not None
    pods = [pod(spec_with_container(resources={"requests": {"cpu": text}})) for text in ("100m", "1")] + [pod()]
    scoped = quota({"cpu": "9", "pods": "9", "memory": "1Gi"}, scopes=["NotBestEffort"])
    used = usage_of(scoped, evaluator, pods, 0)
    assert {name: str(amount) for name, amount in used.items()} == {"cpu": "1100m", "pods": "2", "memory": "0"}


@pytest.mark.parametrize(
    ("used", "counted", "may_lower", "expected"),
    [
        (None, {"pods": "3"}, False, {"pods": "3"}),
        ({"pods": "5"}, {"pods": "3"}, False, {"pods": "5"}),
        ({"pods": "5"}, {"pods": "3"}, True, {"pods": "3"}),
        ({"pods": "1"}, {"pods": "3"}, False, {"pods": "3"}),
        ({"pods": "1"}, {}, True, {"pods": "1"}),
        ({"old": "1"}, {"pods": "3"}, True, {"pods": "3"}),
    ],
)
def test_used_amounts_are_lowered_only_if_allowed(
    used: dict[str, str] | None, counted: dict[str, str], may_lower: bool, expected: dict[str, str]
) -> None:
    amounts = {name: parse(text) for name, text in counted.items()}
    status = status_for(quota({"pods": "9"}, used), amounts, may_lower=may_lower)
    assert (status.hard, status.used) == ({"pods": "9"}, expected)


async def status(c: Cluster) -> dict[str, str]:
    await c.clock.settle()
    return dict((await c.client.for_kind(ResourceQuota).get("q", "default")).status.used)


def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


async def test_status_follows_created_and_deleted_objects() -> None:
    async with cluster() as c:
        maps, quotas = c.client.for_kind(ConfigMap), c.client.for_kind(ResourceQuota)
        await maps.create(config_map("first"))
        async with c.running(NAME):
            await quotas.create(quota({"configmaps": "3"}))
            assert await status(c) == {"configmaps": "1"}
            await maps.create(config_map("second"))
            assert await status(c) == {"configmaps": "2"}
            await maps.delete("first", "default")
            assert await status(c) == {"configmaps": "2"}, "usage is not lowered while creations may be in progress"
            await c.clock.advance(SETTLE_S + 1)
            assert await status(c) == {"configmaps": "1"}
            await maps.delete("second", "default")
            await c.clock.advance(SETTLE_S)
            assert await status(c) == {"configmaps": "0"}
            await quotas.patch("q", {"spec": {"hard": {"configmaps": "0", "secrets": "1"}}}, "default")
            assert await status(c) == {"configmaps": "0", "secrets": "0"}
            with pytest.raises(errors.Forbidden):
                await maps.create(config_map("third"))
        await check_second_run_writes_nothing(c, NAME)


async def test_usage_charged_for_a_failed_create_is_corrected() -> None:
    async with cluster() as c, c.running(NAME):
        maps = c.client.for_kind(ConfigMap)
        await maps.create(config_map("first"))
        await c.client.for_kind(ResourceQuota).create(quota({"configmaps": "3"}))
        await status(c)
        with pytest.raises(errors.AlreadyExists):
            await maps.create(config_map("first"))
        assert await status(c) == {"configmaps": "2"}
        await c.clock.advance(SETTLE_S + 1)
        assert await status(c) == {"configmaps": "1"}


async def test_terminated_pods_do_not_use_the_pods_quota() -> None:
    async with cluster() as c, c.running(NAME):
        await c.client.for_kind(ServiceAccount).create(
            ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        )
        await c.client.for_kind(ResourceQuota).create(quota({"pods": "1", "count/pods": "9"}))
        await status(c)
        pods = c.client.for_kind(Pod)
        await pods.create(pod({"automountServiceAccountToken": False}))
        await c.clock.advance(SETTLE_S + 1)
        await pods.patch("a", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        assert await status(c) == {"pods": "0", "count/pods": "1"}
        await pods.delete("a", "default", options=DeleteParameters(grace_period_s=0))
        await c.clock.advance(SETTLE_S + 1)
        assert await status(c) == {"pods": "0", "count/pods": "0"}


async def test_unwatched_resources_are_counted_periodically() -> None:
    async with cluster() as c, c.running(NAME):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": spec_with_container()}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        value = {"metadata": {"name": "d", "namespace": "default"}, "spec": spec}
        deployments = c.client.for_kind(Deployment)
        await deployments.create(codec.from_value(value, Deployment))
        await c.client.for_kind(ResourceQuota).create(
            quota({"count/deployments.apps": "1", "count/none.example.com": "1"})
        )
        assert await status(c) == {"count/deployments.apps": "1"}
        await deployments.delete("d", "default")
        await c.clock.advance(LISTED_S + 1)
        assert await status(c) == {"count/deployments.apps": "0"}
