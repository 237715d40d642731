"""Deletion of unused service account tokens in secrets."""

from pathlib import Path

import msgspec

from sampan.api.types.core_v1 import ObjectReference, Pod, Secret, ServiceAccount
from sampan.controllers.security import legacy_tokens
from sampan.controllers.security.legacy_tokens import INVALID_SINCE, LAST_USED, LegacyTokenCleanerController
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.security.token_secrets import account, config, token_secret

DAY = 24 * 3600
YEAR = 365 * DAY


async def test_unused_tokens_become_invalid_and_are_deleted_after_a_year(tmp_path: Path) -> None:
    async with cluster() as c:
        secrets, robot = c.client.for_kind(Secret), copy_of(await account(c))
        names = ("old", "used", "mounted", "manual")
        for name in names:
            await secrets.create(token_secret(name, "robot"))
        robot.secrets = [ObjectReference(name=name) for name in names[:3]]
        await c.client.for_kind(ServiceAccount).update(robot)
        await _pod(c, "mounted")
        async with c.running(LegacyTokenCleanerController.name, config=config(tmp_path)):
            await c.clock.advance(YEAR)
            assert await _invalid(c) == {}, "a token can be unused only from the day on which tracking started"
            day = legacy_tokens.day_of(c.clock.now())
            await secrets.patch("used", {"metadata": {"labels": {LAST_USED: day}}}, "default", type=PatchType.MERGE)
            await c.clock.advance(2 * DAY)
            marked = await _invalid(c)
            assert list(marked) == ["old"]
            await c.clock.advance(YEAR - 3 * DAY)
            assert list(await _invalid(c)) == ["old"]
            await c.clock.advance(5 * DAY)
            left = {secret.metadata.name for secret in (await secrets.list()).items}
            assert left >= {"used", "mounted", "manual"}
            assert "old" not in left


async def _pod(c: Cluster, secret: str) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        "serviceAccountName": "robot",
    }
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, Pod)
    await c.client.for_kind(Pod).create(pod)


async def _invalid(c: Cluster) -> dict[str, str]:
    secrets = (await c.client.for_kind(Secret).list()).items
    return {secret.metadata.name: day for secret in secrets if (day := secret.metadata.labels.get(INVALID_SINCE))}
