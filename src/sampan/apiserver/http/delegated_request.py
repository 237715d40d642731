"""A request that a site on the API server's port makes for one of its users: the client's HTTP request, with another
target and with the user's credentials."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from sampan.machinery.client.user_api import PrepareResponse
from sampan.machinery.pki.server_tls import PeerCertificate


class DelegatedRequest(web.BaseRequest):
    """Shares body and connection with the client's request. Each response is passed to `prepare_response` before its
    head is sent, so that the site decides which headers reach the client."""

    client_certificate: PeerCertificate | None = None
    prepare_response: PrepareResponse = staticmethod(lambda response: None)

    def clone(self, **changes: Any) -> DelegatedRequest:
        clone: Any = super().clone(**changes)
        clone.client_certificate, clone.prepare_response = self.client_certificate, self.prepare_response
        return clone  # type: ignore[no-any-return]

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        self.prepare_response(response)


def delegate(
    request: web.BaseRequest,
    *,
    target: str,
    headers: CIMultiDict[str],
    client_certificate: PeerCertificate | None,
    prepare: PrepareResponse,
) -> DelegatedRequest:
    clone = request.clone(rel_url=URL(target, encoded=True), headers=headers)
    delegated = DelegatedRequest(
        clone._message,
        clone._payload,
        clone._protocol,
        clone._payload_writer,
        clone._task,
        clone._loop,
        client_max_size=clone._client_max_size,
    )
    delegated.client_certificate, delegated.prepare_response = client_certificate, prepare
    return delegated
