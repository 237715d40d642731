"""Tokens of service accounts: what makes them good, and what ends them."""

import asyncio
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sampan.api.types.core_v1 import Node, Pod, Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.jwt_keys import KeyFileError, read_keys
from sampan.apiserver.authn.service_account_tokens import ServiceAccountTokens, ServiceAccountTokensConfig
from sampan.machinery.clock import VirtualClock
from sampan.machinery.pki.token_signer import TokenSigner

ISSUER = "https://issuer"


def pem_of(key: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


KEY, OLD = (pem_of(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))


class Objects:
    def __init__(self) -> None:
        self.known: dict[tuple[str, str, str], Any] = {}
        self.put(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="1")))

    def put(self, obj: Any) -> None:
        self.known[obj.kind, obj.metadata.namespace, obj.metadata.name] = obj

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        return self.known.get((kind, namespace, name))


class Scene:
    def __init__(self, *keys: bytes) -> None:
        self.clock, self.objects = VirtualClock(), Objects()
        self.tokens = ServiceAccountTokens(
            config=ServiceAccountTokensConfig(issuer=ISSUER, audiences=("api",), keys=read_keys(keys or (KEY,))),
            objects=self.objects,
            clock=self.clock,
        )

    def token(self, key: bytes = KEY, issuer: str = ISSUER, **changes: Any) -> str:
        now = self.clock.now()
        own = {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "1"}, **changes.pop("own", {})}
        claims = {"aud": ["api"], "exp": now + 600, "nbf": now, "jti": "7", "kubernetes.io": own}
        sub = "system:serviceaccount:ns:robot"
        return TokenSigner(key_pem=key, issuer=issuer).sign({"sub": sub, **claims, **changes})

    def ask(self, token: str, *audiences: str) -> AuthenticationResponse | None:
        return asyncio.run(self.tokens.authenticate_token(token, audiences))

    def fault(self, token: str, *audiences: str) -> str:
        with pytest.raises(TokenError) as fault:
            self.ask(token, *audiences)
        return str(fault.value)


def test_a_good_token_names_its_account() -> None:
    scene = Scene()
    authenticated = scene.ask(scene.token())
    assert authenticated is not None
    user = authenticated.user
    assert (user.name, user.uid, authenticated.audiences) == ("system:serviceaccount:ns:robot", "1", ("api",))
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=7",)}


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "a.b.", "a.e30.c", ""])
def test_what_is_no_token_of_ours_is_left_to_others(token: str) -> None:
    assert Scene().ask(token) is None


def test_tokens_of_other_issuers_are_left_to_others() -> None:
    scene = Scene()
    assert scene.ask(scene.token(issuer="https://other")) is None


def test_another_key_does_not_verify() -> None:
    scene = Scene()
    assert scene.fault(scene.token(OLD))


def test_a_changed_token_does_not_verify() -> None:
    scene = Scene()
    head, _, signature = scene.token().split(".")
    body = scene.token(sub="system:serviceaccount:ns:admin").split(".")[1]
    assert scene.fault(f"{head}.{body}.{signature}")


def test_a_token_without_a_signature_does_not_verify() -> None:
    scene = Scene()
    body = jwt.decode(scene.token(), options={"verify_signature": False})
    assert scene.ask(jwt.encode(body, "", algorithm="none")) is None
    assert scene.fault(jwt.encode(body, "x" * 64, algorithm="HS256"))


def test_an_older_key_counts_while_it_is_known() -> None:
    token = Scene().token(OLD)
    assert Scene(KEY, OLD).ask(token) is not None
    assert Scene(KEY).fault(token)


def test_a_token_for_another_audience_is_rejected() -> None:
    scene = Scene()
    text = 'token audiences ["other"] is invalid for the target audiences ["api"]'
    assert scene.fault(scene.token(aud=["other"])) == text
    assert (
        scene.fault(scene.token(), "x", "y") == 'token audiences ["api"] is invalid for the target audiences ["x" "y"]'
    )
    authenticated = scene.ask(scene.token(aud=["a", "b"]), "b", "c")
    assert authenticated is not None
    assert authenticated.audiences == ("b",)


async def test_an_expired_token_is_rejected() -> None:
    scene = Scene()
    token = scene.token()
    assert await scene.tokens.authenticate_token(token) is not None
    await scene.clock.advance(700)
    with pytest.raises(TokenError, match="expired"):
        await scene.tokens.authenticate_token(token)


def test_a_token_of_tomorrow_is_not_good_today() -> None:
    scene = Scene()
    now = scene.clock.now()
    assert "not valid yet" in scene.fault(scene.token(nbf=now + 100, exp=now + 1000))


@pytest.mark.parametrize(
    ("claim", "obj"),
    [
        ("pod", Pod(metadata=ObjectMeta(name="x", namespace="ns", uid="5"))),
        ("secret", Secret(metadata=ObjectMeta(name="x", namespace="ns", uid="5"))),
        ("node", Node(metadata=ObjectMeta(name="x", uid="5"))),
    ],
)
def test_a_bound_token_lives_as_long_as_what_it_is_bound_to(claim: str, obj: Any) -> None:
    scene = Scene()
    token = scene.token(own={claim: {"name": "x", "uid": "5"}})
    assert "invalidated" in scene.fault(token)
    scene.objects.put(obj)
    assert scene.ask(token) is not None
    assert "invalidated" in scene.fault(scene.token(own={claim: {"name": "x", "uid": "6"}}))
    del scene.objects.known[obj.kind, obj.metadata.namespace, "x"]
    assert "invalidated" in scene.fault(token)


def test_the_user_info_names_the_pod_and_the_node() -> None:
    scene = Scene()
    scene.objects.put(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="5")))
    authenticated = scene.ask(scene.token(own={"pod": {"name": "p", "uid": "5"}, "node": {"name": "n", "uid": "6"}}))
    assert authenticated is not None
    extra = {key.rpartition("/")[2]: values for key, values in authenticated.user.extra.items()}
    assert extra == {
        "credential-id": ("JTI=7",),
        "pod-name": ("p",),
        "pod-uid": ("5",),
        "node-name": ("n",),
        "node-uid": ("6",),
    }


def test_a_token_ends_with_its_account() -> None:
    scene = Scene()
    token = scene.token()
    assert scene.ask(token) is not None
    ended = times.format_time(scene.clock.now() - 61)
    scene.objects.put(
        ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="1", deletionTimestamp=ended))
    )
    assert "invalidated" in scene.fault(token)


def test_a_name_that_is_not_the_account_s_is_refused() -> None:
    scene = Scene()
    assert "private claim" in scene.fault(scene.token(sub="system:serviceaccount:ns:other"))


@pytest.mark.parametrize(
    ("key", "kty", "alg"),
    [
        (ec.generate_private_key(ec.SECP256R1()), "EC", "ES256"),
        (ec.generate_private_key(ec.SECP521R1()), "EC", "ES512"),
        (rsa.generate_private_key(65537, 2048), "RSA", "RS256"),
    ],
)
def test_published_keys_verify_tokens(key: Any, kty: str, alg: str) -> None:
    (read,) = read_keys([key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), pem_of(key)])
    shown = read.jwk()
    assert (shown["kty"], shown["alg"], shown["use"]) == (kty, alg, "sig")
    token = TokenSigner(key_pem=pem_of(key), issuer=ISSUER).sign({"sub": "a"})
    assert jwt.get_unverified_header(token)["kid"] == shown["kid"]
    assert jwt.decode(token, jwt.PyJWK(shown), algorithms=[alg])["sub"] == "a"


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_file_that_is_no_key_is_reported(pem: bytes) -> None:
    with pytest.raises(KeyFileError):
        read_keys([pem])


def test_an_issuer_of_old_is_believed() -> None:
    scene = Scene()
    config = ServiceAccountTokensConfig(
        issuer=ISSUER, audiences=("api",), keys=read_keys([KEY]), other_issuers=("https://old",)
    )
    scene.tokens = ServiceAccountTokens(config=config, objects=scene.objects, clock=scene.clock)
    assert scene.ask(scene.token(issuer="https://old")) is not None
    assert scene.ask(scene.token(issuer="https://older")) is None
