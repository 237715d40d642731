"""The certificates of TLS connections: chosen by the server name that the client sends (SNI), from secrets of type
kubernetes.io/tls. Connections for other names get a self-signed certificate."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from sampan.api.limits import INGRESS_CHAIN_BYTES, INGRESS_KEY_BITS
from sampan.api.types.core_v1 import Secret
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, make_ca

log = logging.getLogger(__name__)

CERTIFICATE, KEY = "tls.crt", "tls.key"
_DEFAULT_NAME = "Sampan Ingress Controller Default Certificate"
_DEFAULT_DAYS = 3650


class UnusableSecret(Exception):
    """A secret has no usable certificate. The message is shown to users."""


class HostCertificates:
    """The certificates of all hosts. `context` is the TLS context of the listeners, which chooses a certificate by
    SNI."""

    def __init__(
        self,
        *,
        secret_of: Callable[[str], NamespacedName | None],
        read_secret: Callable[[NamespacedName], Secret | None],
        now: float,
    ) -> None:
        """Create the certificates. `secret_of` returns the key of the secret of a host, and `read_secret` returns the
        secret."""
        self._secret_of, self._read_secret = secret_of, read_secret
        self._contexts: dict[NamespacedName, ssl.SSLContext] = {}
        ca = make_ca(_DEFAULT_NAME, now=now, days=_DEFAULT_DAYS)
        request = SigningRequest(common_name=_DEFAULT_NAME, dns_names=["ingress.local"], is_server=True)
        self.context = _server_context(issue(ca, request, now=now, days=_DEFAULT_DAYS))
        self.context.sni_callback = self._choose

    def forget(self, secret: Secret) -> None:
        """Read a secret again when it is needed. Open connections keep their certificate."""
        self._contexts.pop(key_of(secret), None)

    def context_of(self, key: NamespacedName) -> ssl.SSLContext:
        """Return the TLS context with the certificate of a secret. Raise UnusableSecret if it has no usable
        certificate."""
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = _server_context(self._key_pair(key))
        return context

    def _key_pair(self, key: NamespacedName) -> KeyPair:
        secret = self._read_secret(key)
        if secret is None:
            raise UnusableSecret(f"secret {key} of type kubernetes.io/tls does not exist")
        for name in (CERTIFICATE, KEY):
            if not secret.data.get(name):
                raise UnusableSecret(f"secret {key} has no {name}")
        return KeyPair(secret.data[CERTIFICATE], secret.data[KEY])

    def _choose(self, connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        key = self._secret_of((server_name or "").lower().rstrip("."))
        if key is None:
            return
        try:
            connection.context = self.context_of(key)
        except UnusableSecret as error:
            log.debug("using the default certificate for %s: %s", server_name, error)


def _server_context(pair: KeyPair) -> ssl.SSLContext:
    """Return a TLS context with a certificate.

    The ssl module reads only files, so the certificate is in a file that exists only in memory. Raise UnusableSecret if
    OpenSSL rejects the certificate.
    """
    chain = _check_chain(pair)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    file = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(chain + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_refuse_password)
    except (ssl.SSLError, ValueError) as error:
        raise UnusableSecret(f"the certificate and its key cannot be used: {error}") from None
    finally:
        os.close(file)
    return context


def _check_chain(pair: KeyPair) -> bytes:
    """Check the size of the key and of the certificates, and return the certificates as PEM.

    They are encoded again, so that OpenSSL reads exactly those that were checked. Raise UnusableSecret if the check
    fails.
    """
    if max(len(pair.certificate), len(pair.key)) > INGRESS_CHAIN_BYTES:
        raise UnusableSecret(f"the certificates or the key have more than {INGRESS_CHAIN_BYTES} bytes")
    try:
        certificates = x509.load_pem_x509_certificates(pair.certificate)
        key = certificates[0].public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableSecret(f"the certificate cannot be read: {error}") from None
    if isinstance(key, RSAPublicKey) and key.key_size > INGRESS_KEY_BITS:
        raise UnusableSecret(f"the key has {key.key_size} bits, more than {INGRESS_KEY_BITS}")
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def _refuse_password() -> str:
    """Keep OpenSSL from prompting for the password of an encrypted key."""
    raise ValueError("the key is encrypted")
