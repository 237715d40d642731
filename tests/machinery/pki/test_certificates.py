"""The PEM form of issued keys, which clients in other languages read."""

import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca, make_key

CA = make_ca("test-ca", now=time.time())


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(CA, id="CA"),
        pytest.param(issue(CA, SigningRequest(common_name="admin", is_client=True), now=time.time()), id="client"),
        pytest.param(make_key(), id="service-account"),
    ],
)
def test_keys_are_encoded_as_sec_1(pair: KeyPair) -> None:
    """The Java client fabric8 takes a `PRIVATE KEY` block for an RSA key."""
    assert pair.key.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert isinstance(load_pem_private_key(pair.key, password=None), ec.EllipticCurvePrivateKey)
