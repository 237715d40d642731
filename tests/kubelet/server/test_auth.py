"""Authentication and authorization at the kubelet's port, delegated to the API server."""

import asyncio
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from sampan.api.types.authentication_v1 import TokenReview, TokenReviewStatus, UserInfo
from sampan.api.types.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from sampan.cluster.pki import CA, SERVER, Pki
from sampan.host.clock import VirtualClock
from sampan.kubelet.server.auth import KubeletAuth, subresources
from sampan.kubelet.server.ports import listen, tls_context
from sampan.kubelet.server.server import KubeletServer
from sampan.machinery import errors
from sampan.machinery.http.delegation import DelegatedAuth
from sampan.testing.keys import KEYS
from tests.kubelet.server.process_node import plain_node, serving


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/pods", ["pods", "proxy"]),
        ("/runningpods/", ["pods", "proxy"]),
        ("/healthz/syncloop", ["healthz", "proxy"]),
        ("/configz", ["configz", "proxy"]),
        ("/stats/summary", ["stats"]),
        ("/metrics/cadvisor", ["metrics"]),
        ("/logs/syslog", ["log"]),
        ("/exec/a/b/c", ["proxy"]),
        ("/podsx", ["proxy"]),
        ("/statsx", ["proxy"]),
        ("/spec/", ["proxy"]),
    ],
)
def test_subresources_of_paths(path: str, expected: list[str]) -> None:
    assert subresources(path) == expected


class _Reviews:
    """An API server that knows two users; `reader` may read stats and health only."""

    def for_kind(self, kind: type) -> "_Reviews":
        return self

    async def create(self, review: TokenReview | SubjectAccessReview) -> TokenReview | SubjectAccessReview:
        if isinstance(review, TokenReview):
            if review.spec.token == "down":
                raise errors.service_unavailable("down")
            known = review.spec.token in ("admin", "reader")
            user = UserInfo(username=review.spec.token)
            return TokenReview(status=TokenReviewStatus(authenticated=known, user=user))
        attributes = review.spec.resourceAttributes
        assert attributes is not None
        assert (attributes.resource, attributes.name) == ("nodes", "plain")
        may = review.spec.user == "admin" or attributes.subresource in ("stats", "healthz")
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=may))


async def test_requests_are_authenticated_and_authorized(tmp_path: Path) -> None:
    delegation = DelegatedAuth(client=_Reviews(), clock=VirtualClock())  # type: ignore[arg-type]
    async with (
        asyncio.timeout(60),
        plain_node(tmp_path) as node,
        serving(node, access=KubeletAuth(node="plain", delegation=delegation)) as url,
        aiohttp.ClientSession() as session,
    ):
        for token, path, code, text in (
            ("", "/pods", 401, "Unauthorized"),
            ("nobody", "/pods", 401, "Unauthorized"),
            ("down", "/pods", 401, "Unauthorized"),
            ("admin", "/configz", 200, None),
            ("reader", "/healthz", 200, "ok"),
            ("reader", "/stats/summary", 200, None),
            (
                "reader",
                "/pods",
                403,
                "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
            ),
            (
                "reader",
                "/exec/a/b/c",
                403,
                "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[proxy])\n",
            ),
        ):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(url + path, headers=headers) as response:
                assert response.status == code, path
                assert text is None or await response.text() == text


async def test_expired_client_certificate_gets_401_and_the_last_common_name_counts(tmp_path: Path) -> None:
    later_s = 0.0

    pki = KEYS.write(tmp_path / "pki")
    delegation = DelegatedAuth(client=_Reviews(), clock=VirtualClock())  # type: ignore[arg-type]
    access = KubeletAuth(node="plain", delegation=delegation, allows_anonymous=True, now=lambda: time.time() + later_s)
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("admin", "reader")]
    caller = ssl.create_default_context(cafile=str(pki.certificate(CA)))
    caller.load_cert_chain(_issue_certificate(pki, x509.Name(names), tmp_path / "caller.pem"))
    async with asyncio.timeout(60), plain_node(tmp_path) as node:
        kubelet = KubeletServer(view=node, clock=VirtualClock(), auth=access)
        tls = tls_context(pki.certificate(SERVER), pki.key(SERVER), pki.certificate(CA))
        async with (
            listen(kubelet.handle, host="127.0.0.1", port=0, tls=tls) as port,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=caller, limit=1)) as session,
        ):
            codes = []
            for path in ("/stats/summary", "/configz", "/stats/summary"):
                async with session.get(f"https://127.0.0.1:{port}{path}") as response:
                    codes.append(response.status)
                    await response.read()
            later_s = 366 * 24 * 3600.0
            async with session.get(f"https://127.0.0.1:{port}/stats/summary") as response:
                codes.append(response.status)
    assert codes == [200, 403, 200, 401], "the caller is reader, not admin"


def _issue_certificate(pki: Pki, subject: x509.Name, path: Path) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    ca = x509.load_pem_x509_certificate(pki.certificate(CA).read_bytes())
    ca_key = load_pem_private_key(pki.key(CA).read_bytes(), password=None)
    builder = x509.CertificateBuilder(ca.subject, subject, key.public_key(), 1, now, now + timedelta(days=1))
    certificate = builder.sign(ca_key, hashes.SHA256())  # type: ignore[arg-type]
    path.write_bytes(
        certificate.public_bytes(Encoding.PEM) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return path
