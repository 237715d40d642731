"""The token subresource of service accounts."""

import asyncio
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sampan.host.clock import VirtualClock
from sampan.machinery.pki.token_signer import TokenSigner
from tests.apiserver.registry.shared_store_servers import NAMESPACE, ApiServer, open_server

ACCOUNTS = f"{NAMESPACE}/serviceaccounts"
ISSUER = "https://issuer.example.com"


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


KEY = ec.generate_private_key(ec.SECP256R1())


def claims_of(
    spec: dict[str, Any], *objects: tuple[str, dict[str, Any]], extends: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the claims of a token for service account `a`, and the response that contained it."""

    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        signer = TokenSigner(key_pem=pem(KEY), issuer=ISSUER, extends=extends)
        async with open_server(signer=signer, clock=VirtualClock()) as server:
            await server.make(ACCOUNTS, {"metadata": {"name": "a"}})
            for path, value in objects:
                await server.make(path, value)
            response = await request_token(server, spec)
            audience = response["spec"]["audiences"][0]
            decoded = jwt.decode(
                response["status"]["token"],
                KEY.public_key(),
                algorithms=["ES256"],
                audience=audience,
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
            header = jwt.get_unverified_header(response["status"]["token"])
            assert header["kid"] == signer.key_id
            return decoded, response

    return asyncio.run(work())


async def request_token(server: ApiServer, spec: dict[str, Any]) -> Any:
    code, response = await server.send("POST", f"{ACCOUNTS}/a/token", {"spec": spec})
    assert code == 201, response
    return response


def test_token_claims_and_default_expiration() -> None:
    claims, response = claims_of({})
    assert (claims["sub"], claims["iss"], claims["aud"]) == ("system:serviceaccount:ns:a", ISSUER, [ISSUER])
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["kubernetes.io"] == {
        "namespace": "ns",
        "serviceaccount": {"name": "a", "uid": response["metadata"]["uid"]},
    }
    assert response["spec"]["expirationSeconds"] == 3600


def test_expiration_of_pod_token_is_extended() -> None:
    spec = {"serviceAccountName": "a", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}, "expirationSeconds": 3607}
    claims, response = claims_of(bound, (f"{NAMESPACE}/pods", {"metadata": {"name": "p"}, "spec": spec}))
    kubernetes_claims = claims["kubernetes.io"]
    assert kubernetes_claims["pod"]["name"] == "p"
    assert kubernetes_claims["node"] == {"name": "n"}
    assert kubernetes_claims["warnafter"] == claims["iat"] + 3607
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert response["spec"]["expirationSeconds"] == 3607
    claims, _ = claims_of(bound, (f"{NAMESPACE}/pods", {"metadata": {"name": "p"}, "spec": spec}), extends=False)
    assert claims["exp"] - claims["iat"] == 3607
    assert "warnafter" not in claims["kubernetes.io"]


async def test_token_for_pod_of_another_service_account_is_rejected() -> None:
    async with open_server(signer=TokenSigner(key_pem=pem(KEY), issuer=ISSUER)) as server:
        await server.make(ACCOUNTS, {"metadata": {"name": "a"}})
        spec = {"serviceAccountName": "b", "containers": [{"name": "c", "image": "i"}]}
        await server.make(f"{NAMESPACE}/pods", {"metadata": {"name": "p"}, "spec": spec})
        bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}
        code, response = await server.send("POST", f"{ACCOUNTS}/a/token", {"spec": bound})
        assert code == 400
        assert "running with different serviceaccount name" in response["message"]


async def test_token_request_gets_404_without_signing_key() -> None:
    async with open_server() as server:
        await server.make(ACCOUNTS, {"metadata": {"name": "a"}})
        assert (await server.send("POST", f"{ACCOUNTS}/a/token", {"spec": {}}))[0] == 404


def test_tokens_are_signed_with_rsa_or_elliptic_curve_keys() -> None:
    with pytest.raises(ValueError, match="RSA or an elliptic curve key"):
        TokenSigner(key_pem=pem(ed25519.Ed25519PrivateKey.generate()), issuer=ISSUER).sign({})
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signed = TokenSigner(key_pem=pem(key), issuer=ISSUER, audiences=("x",)).sign({"sub": "s", "aud": "x"})
    assert jwt.decode(signed, key.public_key(), algorithms=["RS256"], audience="x")["sub"] == "s"


async def test_token_lifetime_is_limited_to_the_configured_maximum() -> None:
    signer = TokenSigner(key_pem=pem(KEY), issuer=ISSUER, longest_s=7200)
    async with open_server(signer=signer, clock=VirtualClock()) as server:
        await server.make(ACCOUNTS, {"metadata": {"name": "a"}})
        responses = [await request_token(server, {"expirationSeconds": seconds}) for seconds in (7200, 9000)]
        assert [response["spec"]["expirationSeconds"] for response in responses] == [7200, 7200]
        assert responses[0]["status"]["expirationTimestamp"] == responses[1]["status"]["expirationTimestamp"]


@pytest.mark.parametrize("audiences", [[f"a{number}" for number in range(1001)], ["a" * 70_000]], ids=["many", "long"])
def test_token_with_too_many_or_too_long_audiences_is_refused(audiences: list[str]) -> None:
    async def work() -> None:
        async with open_server(signer=TokenSigner(key_pem=pem(KEY), issuer=ISSUER), clock=VirtualClock()) as server:
            await server.make(ACCOUNTS, {"metadata": {"name": "a"}})
            code, response = await server.send("POST", f"{ACCOUNTS}/a/token", {"spec": {"audiences": audiences}})
            assert (code, response["details"]["causes"][0]["field"]) == (422, "spec.audiences")

    asyncio.run(work())
