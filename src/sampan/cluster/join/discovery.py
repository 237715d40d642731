"""Find and verify the CA of a cluster before any secret is sent to it (`cmd/kubeadm/app/discovery/token`).

The first connection verifies nothing and sends nothing but an anonymous request for the ConfigMap cluster-info. Only
CA certificates whose public key has the hash in the token are accepted. All later connections verify the server with
them. A token without a hash is accepted if the ConfigMap has a valid signature, which requires the secret of the token.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sampan.api.addresses import join_host_port
from sampan.api.codec.errors import JSON_ERRORS
from sampan.cluster.errors import ClusterError
from sampan.cluster.join.token import JoinToken
from sampan.controllers.security.bootstrap_tokens import KUBECONFIG, SIGNATURE, signature
from sampan.machinery.config_file import decode_config
from sampan.machinery.pki.certificates import public_key_hash
from sampan.machinery.pki.pem import CERTIFICATE, read_blocks

DEFAULT_PORT = 6443
_CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_TIMEOUT_S = 10.0
_MAX_BYTES = 1 << 20


class JoinError(ClusterError):
    """A machine cannot join. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"https://{self}"

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredCluster:
    ca_pem: bytes
    """The verified CA certificates."""
    server_time: float | None
    """The time of the server when it responded, in seconds since the epoch."""


def parse_server(text: str) -> ServerAddress:
    """Return the address in `HOST`, `HOST:PORT`, `[V6]:PORT` or a URL with https."""
    try:
        bare = ipaddress.ip_address(text)
        return ServerAddress(str(bare), DEFAULT_PORT)
    except ValueError:
        pass
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host or urlsplit(text if "://" in text else f"https://{text}").scheme != "https":
        raise JoinError(f"SERVER: want ADDRESS:PORT of an API server, not {text!r}")
    return ServerAddress(host, port or DEFAULT_PORT)


def discover(server: ServerAddress, token: JoinToken) -> DiscoveredCluster:
    """Return the CA of the cluster. Raise JoinError if it cannot be verified; in that case the token
    has not been sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    response = get(server, _CLUSTER_INFO, context)
    if response.status == http.client.NOT_FOUND:
        raise JoinError(
            f"{server} has no ConfigMap kube-public/cluster-info; run `sampan token create` on the cluster first"
        )
    if response.status != http.client.OK:
        raise JoinError(
            f"{server} does not show the ConfigMap kube-public/cluster-info to anonymous users (HTTP "
            f"{response.status}); copy the CA certificate of the cluster to this machine, and use --ca-file"
        )
    ca_pem = trusted_certificates(_config_map_data(server, response.body), token, str(server))
    return DiscoveredCluster(ca_pem=ca_pem, server_time=response.server_time)


def trusted_certificates(data: Mapping[str, str], token: JoinToken, server: str) -> bytes:
    """Return those CA certificates of the ConfigMap that the token vouches for. Pure."""
    kubeconfig = data.get(KUBECONFIG, "")
    signed = data.get(SIGNATURE + token.id)
    is_signed = signed is not None and hmac.compare_digest(signed, signature(kubeconfig, token.id, token.secret))
    if signed is not None and not is_signed:
        raise JoinError(f"{server}: the signature of cluster-info does not match the token: is it another cluster?")
    certificates = _certificates(kubeconfig)
    if not token.ca_hash:
        if not is_signed:
            raise JoinError(
                f"{server}: the token has no CA hash, and cluster-info is not signed with the token (expired, or no "
                "bootstrap-signer-controller); use a token as `sampan token create` prints it"
            )
        return b"".join(certificates)
    return select_pinned_certificates(certificates, token.ca_hash, server)


def select_pinned_certificates(certificates: list[bytes], ca_hash: str, server: str) -> bytes:
    """Return the certificates whose public key has the hash. Other certificates are never trusted, even if the
    ConfigMap contains them too."""
    trusted = [certificate for certificate in certificates if public_key_hash(certificate) == ca_hash]
    if not trusted:
        raise JoinError(
            f"{server} is not the cluster of the token: its CA does not have the hash {ca_hash}. Nothing was sent to "
            "it. Is the address right? If the cluster has a new CA, create a new token"
        )
    return b"".join(trusted)


def certificates_in(pem: bytes) -> list[bytes]:
    return [block.encode() for block in read_blocks(pem) if block.type == CERTIFICATE]


def _certificates(kubeconfig: str) -> list[bytes]:
    try:
        cluster = decode_config(kubeconfig, is_strict=False)["clusters"][0]["cluster"]
        return certificates_in(base64.b64decode(cluster["certificate-authority-data"], validate=True))
    except (LookupError, TypeError, ValueError):  # ConfigFileError and binascii.Error are ValueErrors
        return []


def _config_map_data(server: ServerAddress, body: bytes) -> dict[str, str]:
    try:
        data = msgspec.json.decode(body).get("data")
    except (*JSON_ERRORS, AttributeError):
        data = None
    if not isinstance(data, dict):
        raise JoinError(f"{server} is not a Kubernetes API server")
    return {str(key): str(value) for key, value in data.items()}


# -- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResponse:
    status: int
    body: bytes
    server_time: float | None


def create_tls_context(ca_pem: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_pem.decode())


def get(
    server: ServerAddress, path: str, context: ssl.SSLContext, headers: Mapping[str, str] | None = None
) -> ServerResponse:
    """Send a GET request. Raise JoinError if the server cannot be reached or verified."""
    connection = http.client.HTTPSConnection(server.host, server.port, timeout=_TIMEOUT_S, context=context)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        body = response.read(_MAX_BYTES)
        return ServerResponse(status=response.status, body=body, server_time=_server_time(response.headers.get("Date")))
    except ssl.SSLCertVerificationError as error:
        raise JoinError(_certificate_message(server, error)) from None
    except (OSError, http.client.HTTPException) as error:
        raise JoinError(_unreachable_message(server, error)) from None
    finally:
        connection.close()


def _server_time(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        return None


def _certificate_message(server: ServerAddress, error: ssl.SSLCertVerificationError) -> str:
    reason = error.verify_message or str(error)
    if "mismatch" in reason.lower() or "not valid for" in reason.lower():
        return (
            f"{server}: the certificate of the API server is not for this address ({reason}); use an address that "
            "`sampan up` prints, or start it with --advertise-address"
        )
    if "expired" in reason or "not yet valid" in reason:
        return f"{server}: the certificate of the API server is {reason}: compare the clocks of both machines (date -u)"
    return f"{server}: the certificate of the API server was not signed by the CA of the token: {reason}"


def _unreachable_message(server: ServerAddress, error: Exception) -> str:
    text: Any = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, ConnectionRefusedError):
        return (
            f"nothing listens on {server}. If the cluster runs there, it may listen on loopback addresses only: "
            "`sampan up --bind-address 0.0.0.0` lets other machines join"
        )
    return f"cannot reach the API server at {server}: {text}; check the address, routes and firewalls"
