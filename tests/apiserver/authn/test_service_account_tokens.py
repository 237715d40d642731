"""Validation of service account tokens and of the keys that verify them."""

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
from sampan.host.clock import VirtualClock
from sampan.machinery.pki.token_signer import TokenSigner
from tests.calls import counted_calls

ISSUER = "https://issuer"


def pem_of(key: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


KEY, OLD = (pem_of(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))


class Objects:
    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, str], Any] = {}
        self.put(ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="1")))

    def put(self, obj: Any) -> None:
        self.stored[obj.kind, obj.metadata.namespace, obj.metadata.name] = obj

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        return self.stored.get((kind, namespace, name))


class Setup:
    def __init__(self, *keys: bytes) -> None:
        self.clock, self.objects = VirtualClock(), Objects()
        self.tokens = ServiceAccountTokens(
            config=ServiceAccountTokensConfig(issuer=ISSUER, audiences=("api",), keys=read_keys(keys or (KEY,))),
            objects=self.objects,
            clock=self.clock,
        )

    def token(self, key: bytes = KEY, issuer: str = ISSUER, **changes: Any) -> str:
        now = self.clock.now()
        private_claims = {
            "namespace": "ns",
            "serviceaccount": {"name": "robot", "uid": "1"},
            **changes.pop("private_claims", {}),
        }
        claims = {"aud": ["api"], "exp": now + 600, "nbf": now, "jti": "7", "kubernetes.io": private_claims}
        sub = "system:serviceaccount:ns:robot"
        return TokenSigner(key_pem=key, issuer=issuer).sign({"sub": sub, **claims, **changes})

    def authenticate(self, token: str, *audiences: str) -> AuthenticationResponse | None:
        return asyncio.run(self.tokens.authenticate_token(token, audiences))

    def error(self, token: str, *audiences: str) -> str:
        with pytest.raises(TokenError) as error:
            self.authenticate(token, *audiences)
        return str(error.value)


def test_valid_token_authenticates_its_service_account() -> None:
    setup = Setup()
    authenticated = setup.authenticate(setup.token())
    assert authenticated is not None
    user = authenticated.user
    assert (user.name, user.uid, authenticated.audiences) == ("system:serviceaccount:ns:robot", "1", ("api",))
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=7",)}


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", "a.b.", "a.e30.c", ""])
def test_malformed_tokens_are_ignored(token: str) -> None:
    assert Setup().authenticate(token) is None


def test_tokens_of_other_issuers_are_ignored() -> None:
    setup = Setup()
    assert setup.authenticate(setup.token(issuer="https://other")) is None


def test_token_signed_with_an_unknown_key_is_rejected() -> None:
    setup = Setup()
    assert setup.error(setup.token(OLD))


def test_token_with_changed_claims_is_rejected() -> None:
    setup = Setup()
    head, _, signature = setup.token().split(".")
    body = setup.token(sub="system:serviceaccount:ns:admin").split(".")[1]
    assert setup.error(f"{head}.{body}.{signature}")


def test_tokens_without_an_asymmetric_signature_are_not_accepted() -> None:
    setup = Setup()
    body = jwt.decode(setup.token(), options={"verify_signature": False})
    assert setup.authenticate(jwt.encode(body, "", algorithm="none")) is None
    assert setup.error(jwt.encode(body, "x" * 64, algorithm="HS256"))


def test_token_signed_with_an_old_key_is_valid_while_the_key_is_configured() -> None:
    token = Setup().token(OLD)
    assert Setup(KEY, OLD).authenticate(token) is not None
    assert Setup(KEY).error(token)


def test_a_token_for_another_audience_is_rejected() -> None:
    setup = Setup()
    text = 'token audiences ["other"] is invalid for the target audiences ["api"]'
    assert setup.error(setup.token(aud=["other"])) == text
    assert (
        setup.error(setup.token(), "x", "y") == 'token audiences ["api"] is invalid for the target audiences ["x" "y"]'
    )
    authenticated = setup.authenticate(setup.token(aud=["a", "b"]), "b", "c")
    assert authenticated is not None
    assert authenticated.audiences == ("b",)


async def test_an_expired_token_is_rejected() -> None:
    setup = Setup()
    token = setup.token()
    assert await setup.tokens.authenticate_token(token) is not None
    await setup.clock.advance(700)
    with pytest.raises(TokenError, match="expired"):
        await setup.tokens.authenticate_token(token)


def test_token_is_rejected_before_its_not_before_time() -> None:
    setup = Setup()
    now = setup.clock.now()
    assert "not valid yet" in setup.error(setup.token(nbf=now + 100, exp=now + 1000))


@pytest.mark.parametrize(
    ("claim", "obj"),
    [
        ("pod", Pod(metadata=ObjectMeta(name="x", namespace="ns", uid="5"))),
        ("secret", Secret(metadata=ObjectMeta(name="x", namespace="ns", uid="5"))),
        ("node", Node(metadata=ObjectMeta(name="x", uid="5"))),
    ],
)
def test_bound_token_is_valid_while_its_object_exists(claim: str, obj: Any) -> None:
    setup = Setup()
    token = setup.token(private_claims={claim: {"name": "x", "uid": "5"}})
    assert "invalidated" in setup.error(token)
    setup.objects.put(obj)
    assert setup.authenticate(token) is not None
    assert "invalidated" in setup.error(setup.token(private_claims={claim: {"name": "x", "uid": "6"}}))
    del setup.objects.stored[obj.kind, obj.metadata.namespace, "x"]
    assert "invalidated" in setup.error(token)


def test_the_user_info_names_the_pod_and_the_node() -> None:
    setup = Setup()
    setup.objects.put(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="5")))
    authenticated = setup.authenticate(
        setup.token(private_claims={"pod": {"name": "p", "uid": "5"}, "node": {"name": "n", "uid": "6"}})
    )
    assert authenticated is not None
    extra = {key.rpartition("/")[2]: values for key, values in authenticated.user.extra.items()}
    assert extra == {
        "credential-id": ("JTI=7",),
        "pod-name": ("p",),
        "pod-uid": ("5",),
        "node-name": ("n",),
        "node-uid": ("6",),
    }


def test_token_of_a_deleted_service_account_is_rejected() -> None:
    setup = Setup()
    token = setup.token()
    assert setup.authenticate(token) is not None
    ended = times.format_time(setup.clock.now() - 61)
    setup.objects.put(
        ServiceAccount(metadata=ObjectMeta(name="robot", namespace="ns", uid="1", deletionTimestamp=ended))
    )
    assert "invalidated" in setup.error(token)


def test_token_whose_subject_differs_from_its_private_claims_is_rejected() -> None:
    setup = Setup()
    assert "private claim" in setup.error(setup.token(sub="system:serviceaccount:ns:other"))


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
def test_invalid_key_file_is_rejected(pem: bytes) -> None:
    with pytest.raises(KeyFileError):
        read_keys([pem])


def test_tokens_of_additional_issuers_are_accepted() -> None:
    setup = Setup()
    config = ServiceAccountTokensConfig(
        issuer=ISSUER, audiences=("api",), keys=read_keys([KEY]), other_issuers=("https://old",)
    )
    setup.tokens = ServiceAccountTokens(config=config, objects=setup.objects, clock=setup.clock)
    assert setup.authenticate(setup.token(issuer="https://old")) is not None
    assert setup.authenticate(setup.token(issuer="https://older")) is None


async def test_signature_of_a_token_is_verified_once() -> None:
    setup = Setup()
    token = setup.token()
    with counted_calls() as first:
        assert await setup.tokens.authenticate_token(token, ()) is not None
    with counted_calls() as second:
        assert await setup.tokens.authenticate_token(token, ()) is not None
    assert second.calls < 0.1 * first.calls
