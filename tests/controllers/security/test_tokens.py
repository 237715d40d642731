"""Tokens that are kept in secrets: of service accounts, and for joining."""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api import times
from sampan.api.types.core_v1 import ConfigMap, ObjectReference, Pod, Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authn.jwt_keys import read_keys, verified
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.security import account_tokens, legacy_tokens
from sampan.controllers.security.account_tokens import ServiceAccountTokenController, claims, completed, is_complete
from sampan.controllers.security.bootstrap_tokens import (
    OURS,
    TYPE,
    BootstrapSignerController,
    TokenCleanerController,
    signature,
    signed_data,
)
from sampan.controllers.security.legacy_tokens import INVALID_SINCE, LAST_USED, LegacyTokenCleanerController
from sampan.machinery import errors
from sampan.machinery.certificates import make_key
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from sampan.machinery.token_signer import TokenSigner
from tests.controllers.cluster import Cluster, cluster, second_run_writes_nothing

KEY = make_key()
DAY = 24 * 3600
YEAR = 365 * DAY


def config(directory: Path) -> ControllerConfig:
    (directory / "sa.key").write_bytes(KEY.key)
    return ControllerConfig(root_ca="the bundle", service_account_private_key_file=str(directory / "sa.key"))


def token_secret(name: str, account: str, **labels: str) -> Secret:
    meta = ObjectMeta(name=name, namespace="default", annotations={account_tokens.NAME_KEY: account}, labels=labels)
    return Secret(metadata=meta, type=account_tokens.TYPE)


async def account(c: Cluster, name: str = "robot") -> ServiceAccount:
    return await c.client.of(ServiceAccount).create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))


async def test_a_secret_gets_its_token(tmp_path: Path) -> None:
    async with cluster() as c:
        secrets, robot = c.client.of(Secret), await account(c)
        async with c.running(ServiceAccountTokenController.name, config=config(tmp_path)):
            await secrets.create(token_secret("robot-token", "robot"))
            await secrets.create(token_secret("nobodys", "nobody"))
            await secrets.create(Secret(metadata=ObjectMeta(name="plain", namespace="default")))
            await c.clock.settle()
            secret = await secrets.get("robot-token", "default")
            assert secret.data["ca.crt"] == b"the bundle"
            assert secret.data["namespace"] == b"default"
            token_claims = verified(secret.data["token"].decode(), read_keys([KEY.certificate]))
            assert token_claims == {**claims(robot, secret), "iss": "kubernetes/serviceaccount"}
            assert secret.metadata.annotations[account_tokens.UID_KEY] == robot.metadata.uid
            with pytest.raises(errors.NotFound):
                await secrets.get("nobodys", "default")
            await secrets.patch("robot-token", {"data": {"ca.crt": None}}, "default", type=PatchType.MERGE)
            await c.clock.settle()
            again = await secrets.get("robot-token", "default")
            assert again.data == secret.data, "the token stays"
        before = await c.revision()
        async with c.running(ServiceAccountTokenController.name, config=config(tmp_path)):
            await c.clock.advance(60)
            assert await c.revision() == before
            await c.client.of(ServiceAccount).delete("robot", "default")
            await c.clock.settle()
            with pytest.raises(errors.NotFound):
                await secrets.get("robot-token", "default")
            assert (await secrets.get("plain", "default")).data == {}


async def test_an_account_forgets_a_secret_that_is_gone(tmp_path: Path) -> None:
    async with cluster() as c:
        accounts, secrets = c.client.of(ServiceAccount), c.client.of(Secret)
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


def test_what_is_complete() -> None:
    robot = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="u"))
    secret = token_secret("s", "robot")
    signer = TokenSigner(key_pem=KEY.key, issuer=account_tokens.ISSUER)
    full = completed(secret, robot, b"ca", signer)
    assert is_complete(full, b"ca")
    assert not is_complete(full, b"another")
    assert is_complete(full, b""), "without a CA none is wanted"
    assert secret.data == {}, "the cached object is left as it is"


# -- tokens that nobody uses -----------------------------------------------------------------------------------------


async def test_tokens_that_nobody_uses_become_invalid_and_go(tmp_path: Path) -> None:
    async with cluster() as c:
        secrets, robot = c.client.of(Secret), copy_of(await account(c))
        names = ("old", "used", "mounted", "manual")
        for name in names:
            await secrets.create(token_secret(name, "robot"))
        robot.secrets = [ObjectReference(name=name) for name in names[:3]]
        await c.client.of(ServiceAccount).update(robot)
        await _pod(c, "mounted")
        async with c.running(LegacyTokenCleanerController.name, config=config(tmp_path)):
            await c.clock.advance(YEAR)
            assert await _invalid(c) == {}, "uses are noted since the day after the start"
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
    await c.client.of(Pod).create(pod)


async def _invalid(c: Cluster) -> dict[str, str]:
    secrets = (await c.client.of(Secret).list()).items
    return {secret.metadata.name: day for secret in secrets if (day := secret.metadata.labels.get(INVALID_SINCE))}


# -- tokens for joining ----------------------------------------------------------------------------------------------


def joining_secret(name: str, expires: float | None = None, **data: Any) -> Secret:
    fields = {"token-id": name, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", **data}
    if expires is not None:
        fields["expiration"] = times.format_time(expires)
    meta = ObjectMeta(name=f"bootstrap-token-{name}", namespace="kube-system")
    return Secret(metadata=meta, type=TYPE, data={key: value.encode() for key, value in fields.items()})


async def test_tokens_for_joining_go_in_time() -> None:
    async with cluster() as c:
        secrets = c.client.of(Secret)
        await secrets.create(joining_secret("aaaaaa", c.clock.now() + 600))
        await secrets.create(joining_secret("bbbbbb"))
        async with c.running(TokenCleanerController.name):
            await secrets.create(joining_secret("cccccc", c.clock.now() - 1))
            await secrets.create(joining_secret("dddddd", expiration="rubbish"))
            await c.clock.settle()
            assert await _joining(c) == ["aaaaaa", "bbbbbb"]
            await c.clock.advance(599)
            assert await _joining(c) == ["aaaaaa", "bbbbbb"]
            await c.clock.advance(2)
            assert await _joining(c) == ["bbbbbb"]
        await second_run_writes_nothing(c, TokenCleanerController.name)


async def _joining(c: Cluster) -> list[str]:
    secrets = (await c.client.of(Secret).list(OURS)).items
    return sorted(secret.metadata.name.removeprefix("bootstrap-token-") for secret in secrets)


_UNSIGNING: dict[str, Any] = {"usage-bootstrap-signing": "false"}


async def test_the_way_in_is_signed() -> None:
    async with cluster() as c:
        maps, secrets = c.client.of(ConfigMap), c.client.of(Secret)
        meta = ObjectMeta(name="cluster-info", namespace="kube-public")
        await maps.create(ConfigMap(metadata=meta, data={"kubeconfig": "content", "other": "x"}))
        await secrets.create(joining_secret("aaaaaa", c.clock.now() + 600))
        async with c.running(BootstrapSignerController.name):
            await secrets.create(joining_secret("bbbbbb"))
            await secrets.create(joining_secret("cccccc", **_UNSIGNING))
            await c.clock.settle()
            assert await _signed(c) == ["jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "kubeconfig", "other"]
            await c.clock.advance(601)
            assert await _signed(c) == ["jws-kubeconfig-bbbbbb", "kubeconfig", "other"]
            await secrets.delete("bootstrap-token-bbbbbb", "kube-system")
            await c.clock.settle()
            assert await _signed(c) == ["kubeconfig", "other"]
        await second_run_writes_nothing(c, BootstrapSignerController.name)


async def _signed(c: Cluster) -> list[str]:
    return sorted((await c.client.of(ConfigMap).get("cluster-info", "kube-public")).data)


def test_signatures() -> None:
    head, content, mac = signature("content", "abcdef", "secret").split(".")
    assert content == "", "it is detached"
    assert base64.urlsafe_b64decode(head + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    signed = f"{head}.{base64.urlsafe_b64encode(b'content').rstrip(b'=').decode()}".encode()
    expected = base64.urlsafe_b64encode(hmac.new(b"secret", signed, hashlib.sha256).digest()).rstrip(b"=")
    assert mac.encode() == expected
    assert signed_data({"x": "y"}, {"a": "b"}) == {"x": "y"}, "there is nothing to sign"
