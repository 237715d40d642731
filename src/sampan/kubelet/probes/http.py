"""HTTP probes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from yarl import URL

from sampan.api.types.core_v1 import HTTPGetAction
from sampan.kubelet.probes import tcp
from sampan.kubelet.probes.results import Answer
from sampan.machinery.http_session import HttpSession, get_following
from sampan.machinery.lean_aiohttp import aiohttp

AGENT = "kube-probe/1.36"
_MOST_BODY = 10 << 10


def url_of(action: HTTPGetAction, address: str, port: int) -> str:
    host = action.host or address
    shown = f"[{host}]" if ":" in host else host
    path = action.path or "/"
    return f"{(action.scheme or 'HTTP').lower()}://{shown}:{port}{path if path.startswith('/') else '/' + path}"


def headers_of(action: HTTPGetAction) -> dict[str, str]:
    headers = {header.name.title(): header.value for header in action.httpHeaders}
    headers.setdefault("User-Agent", AGENT)
    headers.setdefault("Accept", "*/*")
    return {name: value for name, value in headers.items() if value or name == "Host"}


async def ask(url: str, headers: Mapping[str, str], timeout_s: float) -> Answer:
    """Perform the probe. Redirects are followed on the same host; one to another host is a success with a warning."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(URL(url, encoded=True), headers)
    except TimeoutError:
        what = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Answer(False, f'Get "{url}": {what}')
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer(False, f'Get "{url}": {_told(error)}')


async def _ask(url: URL, headers: Mapping[str, str]) -> Answer:
    connector = aiohttp.TCPConnector(ssl=unverified(), force_close=True, limit=1)
    async with (
        HttpSession(connector=connector, skip_auto_headers=["User-Agent"]) as session,
        get_following(session, url, headers) as answer,
    ):
        body = (await answer.content.read(_MOST_BODY)).decode("utf-8", "replace")
        return _judged(answer.status, body)


def _judged(status: int, body: str) -> Answer:
    if 200 <= status < 300:
        return Answer(True, body)
    if 300 <= status < 400:
        return Answer(True, f"Probe terminated redirects, Response body: {body}", is_warning=True)
    return Answer(False, f"HTTP probe failed with statuscode: {status}")


def unverified() -> ssl.SSLContext:
    """Return a context that does not verify the server: a probe tests whether something responds, not who."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _told(fault: Exception) -> str:
    if isinstance(fault, aiohttp.ClientConnectorError):
        return f"dial tcp {fault.host}:{fault.port}: connect: {tcp.told(fault.os_error)}"
    return str(fault) or type(fault).__name__
