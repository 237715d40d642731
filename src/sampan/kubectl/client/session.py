"""A connection to the API server for the duration of a command, and the format of its errors."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click
import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.kubectl.client.client_config import load_access
from sampan.kubectl.client.local_clusters import LocalClusters, connection_hint
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.global_options import GlobalOptions
from sampan.kubectl.errors import KubectlError, PlainError, ServerError
from sampan.machinery import errors
from sampan.machinery.client.access import Access, AccessError, tls_context

if TYPE_CHECKING:
    from sampan.machinery.client.exec_credentials import PluginPolicy

JSON = "application/json"
_CONNECT_TIMEOUT_S = 30
_BODY_TIMED_OUT = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class ConnectionFailure(PlainError):
    """The server cannot be reached. `request` is the method and the quoted URL of the request."""

    def __init__(self, message: str, *, request: str, server: str, reason: str) -> None:
        super().__init__(message)
        self.cause = f"{request}: {reason}"
        self._server, self._reason = server, reason

    def add_context(self, operation: str, path: str = "", advice: str = "") -> KubectlError:
        """Return the error of an operation that failed. `path` is the path that kubectl would have requested,
        if it differs from that of the failed request."""
        cause = f"Get {quote_text(self._server + path)}: {self._reason}" if path else self.cause
        return KubectlError(f"{operation}: {cause}{advice}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEndpoint:
    """The address, TLS settings and proxy for a connection to the API server."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str
    """The name that the server's certificate must have."""
    proxy: SplitResult | None

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls is not None else 80) else f"{host}:{self.port}"


class Session:
    def __init__(
        self,
        access: Access,
        namespace: str,
        *,
        timeout_s: float | None = None,
        clusters: LocalClusters | None = None,
    ) -> None:
        """If the server does not answer, the error names the running ones of `clusters`."""
        self.namespace = namespace
        self._clusters = clusters
        self.access = self._access = access
        self._url = urlsplit(access.server)
        self._connection: http.client.HTTPConnection | None = None
        self._timeout_s = timeout_s
        self.warnings: dict[str, None] = {}
        """The warnings that the server sent, without duplicates."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = JSON) -> Any:
        return self.send("GET", path, query, accept=accept)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send a request and return the decoded response. Print warnings. Raise ServerError for an error response."""
        response = self._open(method, path, query, body, content_type, accept)
        data = _read_body(response)
        if response.status >= 400:
            raise ServerError(_failure(response.status, data))
        try:
            return msgspec.json.decode(data)
        except JSON_ERRORS as error:
            raise KubectlError(f"cannot decode the response of {self._access.server}: {error}") from None

    def read(self, path_and_query: str) -> bytes:
        """Return the body of the response to a GET request for a path with an optional query."""
        path, _, query = path_and_query.partition("?")
        response = self._open("GET", path, query, None, JSON, "*/*")
        data = _read_body(response)
        if response.status >= 400:
            raise ServerError(_failure(response.status, data))
        return data

    def lines(self, path: str, query: Mapping[str, str], *, accept: str = JSON) -> Iterator[Any]:
        """Yield the events of a watch, decoded from JSON, as they arrive. The watch ends without an error when
        --request-timeout is over, however many events arrive."""
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        response = self._open("GET", path, query, None, JSON, accept)
        if response.status >= 400:
            raise ServerError(_failure(response.status, _read_body(response)))
        try:
            while line := self._read_line(response, deadline):
                yield msgspec.json.decode(line)
            response.read()  # read the end of the body, without which the connection cannot take another request
        except TimeoutError:
            pass
        if deadline is not None:
            response.close()
            self.close()  # its time limit was that of the watch

    def _read_line(self, response: http.client.HTTPResponse, deadline: float | None) -> bytes:
        """Return a line of a body, or b"" at its end. Raise TimeoutError at the deadline."""
        if deadline is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            if self._connection is not None and self._connection.sock is not None:
                self._connection.sock.settimeout(left_s)
        return response.readline()

    def pieces(self, path: str, query: Mapping[str, str], *, is_lines: bool = False) -> Iterator[bytes]:
        """Yield the body of a response, such as a log, as it arrives and without a timeout. Yield complete lines if
        `is_lines` is set."""
        response = self._open("GET", path, query, None, JSON, "*/*")
        if response.status >= 400:
            raise ServerError(_failure(response.status, _read_body(response)))
        try:
            while piece := response.readline() if is_lines else response.read1(1 << 16):
                yield piece
        except TimeoutError:
            raise KubectlError(_BODY_TIMED_OUT) from None

    def open_another(self, *, timeout_s: float | None = None) -> Session:
        """Return a session with a separate connection to the same server. `timeout_s` replaces the time limit of this
        session."""
        timeout_s = timeout_s if timeout_s is not None else self._timeout_s
        return Session(self._access, self.namespace, timeout_s=timeout_s, clusters=self._clusters)

    # -- connections for streams -------------------------------------------------------------------------------------

    def endpoint(self) -> ServerEndpoint:
        is_plain = self._url.scheme == "http"
        host = self._url.hostname or ""
        return ServerEndpoint(
            host=host,
            port=self._url.port or (80 if is_plain else 443),
            tls=None if is_plain else self._tls(),
            server_name=self._access.tls_server_name or host,
            proxy=_proxy_for(self._url, self._access.proxy_url),
        )

    def target(self, path: str) -> str:
        return self._url.path.rstrip("/") + quote(path, safe="/:@")

    def identity(self) -> list[tuple[str, str]]:
        """Return the headers that authenticate the user."""
        try:
            return list(self._access.headers())
        except AccessError as error:
            raise PlainError(f"Unable to connect to the server: {error}") from None

    def _open(
        self, method: str, path: str, query: Mapping[str, str] | str | None, body: Any, content_type: str, accept: str
    ) -> http.client.HTTPResponse:
        text = query if isinstance(query, str) else urlencode(query or {})
        target = self.target(path) + (f"?{text}" if text else "")
        headers = [*self.identity(), ("Accept", accept), ("User-Agent", "sampan-kubectl")]
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            headers += [("Content-Type", content_type), ("Content-Length", str(len(data)))]
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.putrequest(method, target)
            for name, value in headers:
                self._connection.putheader(name, value)
            self._connection.endheaders(data or None)
            response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._connection = None
            url = quote_text(f"{self._url.scheme}://{self._url.netloc}{target}")
            name = self._access.tls_server_name
            hint = connection_hint(self._clusters, self._access.server) if self._clusters is not None else ""
            request = f"{method.capitalize()} {url}"
            raise connection_failure(error, request, self._url, server_name=name, hint=hint) from None
        except ValueError as error:  # a token or name that is not valid in a header
            raise KubectlError(f"cannot send the request to {self._access.server}: {error}") from None
        self._warn(response)
        return response

    def _warn(self, response: http.client.HTTPResponse) -> None:
        for header in response.headers.get_all("Warning") or ():
            text = header.partition('"')[2].rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\")
            if text not in self.warnings:
                self.warnings[text] = None
                click.echo(f"Warning: {text}", err=True)

    def _connect(self) -> http.client.HTTPConnection:
        """Connect with a time limit; the limit for responses is that of --request-timeout."""
        if self._url.scheme not in ("http", "https"):
            raise PlainError(
                f"Unable to connect to the server: unsupported protocol scheme {quote_text(self._url.scheme)}"
            )
        host, port = self._url.hostname or "localhost", self._url.port
        proxy = _proxy_for(self._url, self._access.proxy_url)
        near_host, near_port = (proxy.hostname or "", proxy.port) if proxy is not None else (host, port)
        if self._url.scheme == "http":
            connection: http.client.HTTPConnection = PlainConnection(near_host, near_port)
        else:
            name = self._access.tls_server_name or host
            connection = NamedConnection(near_host, near_port, context=self._tls(), server_name=name)
        if proxy is not None:
            connection.set_tunnel(host, port or (80 if self._url.scheme == "http" else 443), proxy_headers(proxy))
        connection.connect()
        connection.sock.settimeout(self._timeout_s)
        return connection

    def _tls(self) -> ssl.SSLContext:
        try:
            context = tls_context(self._access)
        except AccessError as error:
            raise KubectlError(str(error)) from None
        assert isinstance(context, ssl.SSLContext)
        return context


def _read_body(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read()
    except TimeoutError:
        raise KubectlError(
            f"unexpected error when reading response body. Please retry. Original error: {_BODY_TIMED_OUT}"
        ) from None


class PlainConnection(http.client.HTTPConnection):
    """An HTTP connection that does not use the IDNA codec for ASCII host names: importing that codec takes longer than
    a request."""

    def __init__(self, host: str, port: int | None) -> None:
        super().__init__(host, port, timeout=_CONNECT_TIMEOUT_S)
        self.__dict__["_create_connection"] = _connect_socket


class NamedConnection(PlainConnection):
    """A TLS connection to a server whose certificate is verified for a name that may differ from the address."""

    default_port = 443

    def __init__(self, host: str, port: int | None, *, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port)
        self._context, self._server_name = context, server_name

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=_ascii(self._server_name))


def _connect_socket(address: tuple[str, int], timeout_s: float, source: Any) -> socket.socket:
    host, port = address
    return socket.create_connection((_ascii(host), port), timeout_s, source)


def _ascii(name: str) -> str:
    """Return an ASCII host name as bytes, to which Python does not apply the IDNA codec. The type annotations of the
    standard library do not allow bytes, hence the return type."""
    encoded: Any = name.encode() if name.isascii() else name
    return encoded  # type: ignore[no-any-return]


def _proxy_for(url: SplitResult, configured: str) -> SplitResult | None:
    """Return the proxy for the server from the kubeconfig, or else from the environment; None without a proxy."""
    text = configured
    if not text:
        names = (f"{url.scheme}_proxy", f"{url.scheme}_proxy".upper())
        text = next((os.environ[name] for name in names if os.environ.get(name)), "")
        if text:
            from urllib.request import proxy_bypass

            is_local = (url.hostname or "") in ("localhost", "127.0.0.1", "::1")
            text = "" if is_local or proxy_bypass(url.hostname or "") else text
    if not text:
        return None
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    if proxy.scheme != "http":
        raise KubectlError(f"proxy {text}: the scheme {proxy.scheme} is not supported; use http")
    return proxy


def proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _failure(code: int, body: bytes) -> errors.ApiError:
    try:
        status = msgspec.json.decode(body)
        return errors.from_status(status)
    except (*JSON_ERRORS, AttributeError):
        return errors.generic(code, body.decode("utf-8", "replace"), is_unexpected=True)


def connection_failure(
    error: Exception, request: str, url: SplitResult, *, server_name: str = "", hint: str = ""
) -> ConnectionFailure:
    """Return the error of a request that got no response. `request` is its method and its quoted URL. `server_name` is
    the name that the server's certificate must have, if it is not the host of the URL. `hint` is added to the
    message."""
    reason = _reason(error, url, server_name)
    message = f"Unable to connect to the server: {reason}"
    if isinstance(error, ConnectionRefusedError):
        message = f"The connection to the server {url.netloc} was refused - did you specify the right host or port?"
    return ConnectionFailure(message + hint, request=request, server=f"{url.scheme}://{url.netloc}", reason=reason)


def _reason(error: Exception, url: SplitResult, server_name: str) -> str:
    """Return why a connection failed, in the words of Go if the kind of the error is known."""
    if isinstance(error, ConnectionRefusedError):
        port = url.port or (80 if url.scheme == "http" else 443)
        return f"dial tcp {url.hostname or ''}:{port}: connect: connection refused"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {url.hostname or ''}{_resolver()}: no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        from sampan.kubectl.client.certificate_errors import verification_error

        host = url.hostname or "localhost"
        return verification_error(error, host, url.port or 443, server_name or host)
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _resolver() -> str:
    """Return the first DNS server of resolv.conf as ` on ADDRESS:53`, for an error message; empty if there is none."""
    try:
        with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
            words = [line.split() for line in file]
    except OSError:
        return ""
    servers = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
    return f" on {servers[0]}:53" if servers else ""


def open_session(
    options: GlobalOptions, clusters: LocalClusters, *, plugin_policy: PluginPolicy | None = None
) -> Session:
    """Open a session with the server and credentials of the flags, $KUBECONFIG, ~/.kube/config or one of `clusters`, in
    this order. The session is closed when the command ends. `plugin_policy` restricts the exec plugins for
    credentials."""
    access, namespace = load_access(options, clusters)
    if plugin_policy is not None and access.credential_source is not None:
        access.credential_source.restrict(plugin_policy)
    timeout_s = _timeout_s(options.request_timeout or "0")
    session = Session(access, namespace, timeout_s=timeout_s, clusters=clusters)
    click.get_current_context().call_on_close(session.close)
    return session


def _timeout_s(text: str) -> float | None:
    """Parse --request-timeout. Return the time limit for a response in seconds, or None for no limit. A number without
    a unit means seconds."""
    from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_duration_s

    try:
        seconds = float(int(text)) if text.lstrip("-").isdigit() else parse_duration_s(text)
    except ValueSyntaxError:
        raise KubectlError(
            "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a "
            "corresponding time unit (e.g. 1s | 2m | 3h)"
        ) from None
    return seconds if seconds > 0 else None
