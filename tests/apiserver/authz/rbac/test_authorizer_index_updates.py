"""Updates of the RBAC index from the store, and creation of the default roles in a new cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sampan.apiserver.authz import AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects, plan_changes, reconcile
from sampan.apiserver.authz.rbac.index_updater import RbacIndexUpdater
from tests.apiserver.authz.rbac_objects import attributes_of
from tests.apiserver.in_process_server import InProcessClient, in_process_client, run
from tests.eventually import eventually

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@asynccontextmanager
async def rbac_index(client: InProcessClient) -> AsyncIterator[RbacIndex]:
    index = RbacIndex()
    updater = RbacIndexUpdater(index=index, registry=client.registry)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(updater.run())
        await updater.wait_filled()
        yield index
        task.cancel()


def run_in_cluster(work: Callable[[InProcessClient, RbacIndex], Awaitable[None]]) -> None:
    async def main() -> None:
        async with in_process_client() as client:
            for name in ("kube-system", "kube-public", "ns"):
                await client.create("/api/v1/namespaces", {"metadata": {"name": name}})
            async with rbac_index(client) as index:
                await work(client, index)

    run(main())


async def wait_until_allowed_is(expected: bool, index: RbacIndex) -> None:
    """Wait until ann may or may not get pods in ns."""
    authorizer, attributes = RbacAuthorizer(index=index), attributes_of("get", "pods", namespace="ns")
    await eventually(lambda: (authorizer.authorize(attributes).decision is AuthzDecision.ALLOW) is expected)


def test_index_follows_created_and_deleted_roles_and_bindings() -> None:
    async def work(client: InProcessClient, index: RbacIndex) -> None:
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await client.create(f"{RBAC}/namespaces/ns/roles", {"metadata": {"name": "r"}, "rules": rules})
        subjects = [{"kind": "User", "name": "ann"}]
        binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
        await client.create(f"{RBAC}/namespaces/ns/rolebindings", binding)
        await wait_until_allowed_is(True, index)
        await client.send("DELETE", f"{RBAC}/namespaces/ns/roles/r")
        await wait_until_allowed_is(False, index)

    run_in_cluster(work)


def test_default_roles_are_created_once_in_a_new_cluster() -> None:
    async def work(client: InProcessClient, index: RbacIndex) -> None:
        await reconcile(client.pipeline, index)
        stored = (await client.get(f"{RBAC}/clusterroles")).json["items"]
        expected = {obj.metadata.name for obj in default_objects() if obj.kind == "ClusterRole"}
        assert {role["metadata"]["name"] for role in stored} == expected
        async with rbac_index(client) as another:
            changes = plan_changes(another)
            assert (changes.create, changes.update, changes.recreate) == ([], [], [])

    run_in_cluster(work)
