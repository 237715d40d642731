"""Bootstrap tokens: their expiry, and the signatures of the ConfigMap cluster-info."""

import base64
import hashlib
import hmac
from typing import Any

from sampan.api.semantics.secret_types import BOOTSTRAP_TOKEN
from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.controllers.security.bootstrap_tokens import (
    BOOTSTRAP_TOKEN_SELECTION,
    BootstrapSignerController,
    TokenCleanerController,
    sign_data,
    signature,
)
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster


def bootstrap_secret(name: str, expires: float | None = None, **data: Any) -> Secret:
    fields = {"token-id": name, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", **data}
    if expires is not None:
        fields["expiration"] = times.format_time(expires)
    meta = ObjectMeta(name=f"bootstrap-token-{name}", namespace="kube-system")
    return Secret(metadata=meta, type=BOOTSTRAP_TOKEN, data={key: value.encode() for key, value in fields.items()})


async def test_expired_bootstrap_tokens_are_deleted() -> None:
    async with cluster() as c:
        secrets = c.client.for_kind(Secret)
        await secrets.create(bootstrap_secret("aaaaaa", c.clock.now() + 600))
        await secrets.create(bootstrap_secret("bbbbbb"))
        async with c.running(TokenCleanerController.name):
            await secrets.create(bootstrap_secret("cccccc", c.clock.now() - 1))
            await secrets.create(bootstrap_secret("dddddd", expiration="rubbish"))
            await c.clock.settle()
            assert await _token_ids(c) == ["aaaaaa", "bbbbbb"]
            await c.clock.advance(599)
            assert await _token_ids(c) == ["aaaaaa", "bbbbbb"]
            await c.clock.advance(2)
            assert await _token_ids(c) == ["bbbbbb"]
        await check_second_run_writes_nothing(c, TokenCleanerController.name)


async def _token_ids(c: Cluster) -> list[str]:
    secrets = (await c.client.for_kind(Secret).list(BOOTSTRAP_TOKEN_SELECTION)).items
    return sorted(secret.metadata.name.removeprefix("bootstrap-token-") for secret in secrets)


NOT_FOR_SIGNING: dict[str, Any] = {"usage-bootstrap-signing": "false"}


async def test_cluster_info_is_signed_with_every_valid_token() -> None:
    async with cluster() as c:
        maps, secrets = c.client.for_kind(ConfigMap), c.client.for_kind(Secret)
        meta = ObjectMeta(name="cluster-info", namespace="kube-public")
        await maps.create(ConfigMap(metadata=meta, data={"kubeconfig": "content", "other": "x"}))
        await secrets.create(bootstrap_secret("aaaaaa", c.clock.now() + 600))
        async with c.running(BootstrapSignerController.name):
            await secrets.create(bootstrap_secret("bbbbbb"))
            await secrets.create(bootstrap_secret("cccccc", **NOT_FOR_SIGNING))
            await c.clock.settle()
            assert await _cluster_info_keys(c) == [
                "jws-kubeconfig-aaaaaa",
                "jws-kubeconfig-bbbbbb",
                "kubeconfig",
                "other",
            ]
            await c.clock.advance(601)
            assert await _cluster_info_keys(c) == ["jws-kubeconfig-bbbbbb", "kubeconfig", "other"]
            await secrets.delete("bootstrap-token-bbbbbb", "kube-system")
            await c.clock.settle()
            assert await _cluster_info_keys(c) == ["kubeconfig", "other"]
        await check_second_run_writes_nothing(c, BootstrapSignerController.name)


async def _cluster_info_keys(c: Cluster) -> list[str]:
    return sorted((await c.client.for_kind(ConfigMap).get("cluster-info", "kube-public")).data)


def test_a_signature_is_a_detached_jws() -> None:
    head, content, mac = signature("content", "abcdef", "secret").split(".")
    assert content == "", "the payload is detached"
    assert base64.urlsafe_b64decode(head + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    signed = f"{head}.{base64.urlsafe_b64encode(b'content').rstrip(b'=').decode()}".encode()
    expected = base64.urlsafe_b64encode(hmac.new(b"secret", signed, hashlib.sha256).digest()).rstrip(b"=")
    assert mac.encode() == expected
    assert sign_data({"x": "y"}, {"a": "b"}) == {"x": "y"}, "without a kubeconfig nothing is signed"
