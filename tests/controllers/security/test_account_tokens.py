"""Tokens of service accounts that are kept in secrets."""

from pathlib import Path

import pytest

from sampan.api.types.core_v1 import ObjectReference, Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authn.jwt_keys import read_keys, verify_token
from sampan.controllers.security import account_tokens
from sampan.controllers.security.account_tokens import ServiceAccountTokenController, claims, fill_secret, is_complete
from sampan.machinery import errors
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from sampan.machinery.pki.token_signer import TokenSigner
from tests.controllers.cluster import cluster
from tests.controllers.security.token_secrets import KEY, account, config, token_secret


async def test_token_secret_is_filled_and_deleted_with_its_account(tmp_path: Path) -> None:
    async with cluster() as c:
        secrets, robot = c.client.for_kind(Secret), await account(c)
        async with c.running(ServiceAccountTokenController.name, config=config(tmp_path)):
            await secrets.create(token_secret("robot-token", "robot"))
            await secrets.create(token_secret("unowned", "nobody"))
            await secrets.create(Secret(metadata=ObjectMeta(name="plain", namespace="default")))
            await c.clock.settle()
            secret = await secrets.get("robot-token", "default")
            assert secret.data["ca.crt"] == b"the bundle"
            assert secret.data["namespace"] == b"default"
            token_claims = verify_token(secret.data["token"].decode(), read_keys([KEY.certificate]))
            assert token_claims == {**claims(robot, secret), "iss": "kubernetes/serviceaccount"}
            assert secret.metadata.annotations[account_tokens.UID_KEY] == robot.metadata.uid
            with pytest.raises(errors.NotFound):
                await secrets.get("unowned", "default")
            await secrets.patch("robot-token", {"data": {"ca.crt": None}}, "default", type=PatchType.MERGE)
            await c.clock.settle()
            refilled = await secrets.get("robot-token", "default")
            assert refilled.data == secret.data, "the token is kept"
        before = await c.revision()
        async with c.running(ServiceAccountTokenController.name, config=config(tmp_path)):
            await c.clock.advance(60)
            assert await c.revision() == before
            await c.client.for_kind(ServiceAccount).delete("robot", "default")
            await c.clock.settle()
            with pytest.raises(errors.NotFound):
                await secrets.get("robot-token", "default")
            assert (await secrets.get("plain", "default")).data == {}


async def test_an_account_drops_its_reference_to_a_deleted_secret(tmp_path: Path) -> None:
    async with cluster() as c:
        accounts, secrets = c.client.for_kind(ServiceAccount), c.client.for_kind(Secret)
        robot = copy_of(await account(c))
        async with c.running(ServiceAccountTokenController.name, config=config(tmp_path)):
            await secrets.create(token_secret("one", "robot"))
            robot.secrets = [ObjectReference(name="one"), ObjectReference(name="two")]
            await accounts.update(robot)
            await c.clock.settle()
            await secrets.delete("one", "default")
            await c.clock.settle()
            service_account = await accounts.get("robot", "default")
            assert [ref.name for ref in service_account.secrets] == ["two"]


def test_a_secret_is_complete_with_token_namespace_and_ca() -> None:
    robot = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="u"))
    secret = token_secret("s", "robot")
    signer = TokenSigner(key_pem=KEY.key, issuer=account_tokens.ISSUER)
    complete_secret = fill_secret(secret, robot, b"ca", signer)
    assert is_complete(complete_secret, b"ca")
    assert not is_complete(complete_secret, b"another")
    assert is_complete(complete_secret, b""), "without a root CA the secret needs none"
    assert secret.data == {}, "the cached secret is not changed"
