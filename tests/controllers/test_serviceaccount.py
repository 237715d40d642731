"""serviceaccount-controller."""

import pytest

from sampan.api.types.core_v1 import Namespace, NamespaceStatus, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.serviceaccount import ServiceAccountController, wants_account
from tests.controllers.cluster import check_second_run_writes_nothing, cluster

NAME = ServiceAccountController.name


@pytest.mark.parametrize(
    ("phase", "has_account", "expected"),
    [("Active", False, True), ("Active", True, False), ("Terminating", False, False), (None, False, False)],
)
def test_active_namespaces_without_account_want_an_account(
    phase: str | None, has_account: bool, expected: bool
) -> None:
    namespace = Namespace(status=NamespaceStatus(phase=phase)) if phase is not None else None
    assert wants_account(namespace, ServiceAccount() if has_account else None) is expected


async def test_every_namespace_has_a_default_account_that_is_recreated() -> None:
    async with cluster() as c:
        accounts = c.client.for_kind(ServiceAccount)
        async with c.running(NAME):
            accounts_at_start = (await accounts.list()).items
            assert {obj.metadata.namespace for obj in accounts_at_start} == {
                "default",
                "kube-system",
                "kube-public",
                "kube-node-lease",
            }
            await c.client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="new")))
            await c.clock.settle()
            service_account = await accounts.get("default", "new")
            await accounts.delete("default", "new")
            await c.clock.settle()
            recreated = await accounts.get("default", "new")
            assert recreated.metadata.uid != service_account.metadata.uid
            await c.client.for_kind(Namespace).delete("new")
            await accounts.delete("default", "new")
            await c.clock.advance(60)
            assert [obj for obj in (await accounts.list()).items if obj.metadata.namespace == "new"] == []
        await check_second_run_writes_nothing(c, NAME)
