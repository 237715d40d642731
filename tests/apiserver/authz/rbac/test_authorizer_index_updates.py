"""What is written to the store is what the authorizer goes by, and a new cluster gets its roles through it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sampan.apiserver.authz import AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex, RbacIndexUpdater
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects, plan_changes, reconcile
from tests.apiserver.authz.rbac_objects import attributes_of
from tests.apiserver.in_process_server import Asking, asking, run
from tests.eventually import eventually

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@asynccontextmanager
async def rbac_index(asks: Asking) -> AsyncIterator[RbacIndex]:
    index = RbacIndex()
    feed = RbacIndexUpdater(index=index, registry=asks.registry)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(feed.run())
        await feed.wait_filled()
        yield index
        task.cancel()


def in_cluster(work: Callable[[Asking, RbacIndex], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asking() as asks:
            for name in ("kube-system", "kube-public", "ns"):
                await asks.create("/api/v1/namespaces", {"metadata": {"name": name}})
            async with rbac_index(asks) as index:
                await work(asks, index)

    run(within())


async def becomes(expected: bool, index: RbacIndex) -> None:
    """Wait until ann may or may not get pods in ns."""
    authorizer, question = RbacAuthorizer(index=index), attributes_of("get", "pods", namespace="ns")
    await eventually(lambda: (authorizer.authorize(question).decision is AuthzDecision.ALLOW) is expected)


def test_roles_and_bindings_come_and_go() -> None:
    async def work(asks: Asking, index: RbacIndex) -> None:
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await asks.create(f"{RBAC}/namespaces/ns/roles", {"metadata": {"name": "r"}, "rules": rules})
        subjects = [{"kind": "User", "name": "ann"}]
        bound = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
        await asks.create(f"{RBAC}/namespaces/ns/rolebindings", bound)
        await becomes(True, index)
        await asks.send("DELETE", f"{RBAC}/namespaces/ns/roles/r")
        await becomes(False, index)

    in_cluster(work)


def test_a_new_cluster_gets_its_roles_once() -> None:
    async def work(asks: Asking, index: RbacIndex) -> None:
        await reconcile(asks.pipeline, index)
        stored = (await asks.get(f"{RBAC}/clusterroles")).json["items"]
        expected = {obj.metadata.name for obj in default_objects() if obj.kind == "ClusterRole"}
        assert {role["metadata"]["name"] for role in stored} == expected
        async with rbac_index(asks) as another:
            changes = plan_changes(another)
            assert (changes.create, changes.update, changes.recreate) == ([], [], [])

    in_cluster(work)
