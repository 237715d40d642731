"""A connection to the API server for the duration of a command, and the format of its errors."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click
import msgspec

from sampan.cli.cluster_dir import cluster_dir
from sampan.cli.failures import CliError
from sampan.machinery import errors
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access, AccessError, tls_context

JSON = "application/json"
_TIMEOUT_S = 60


class ServerError(click.ClickException):
    """An error response of the API server, printed in the format of kubectl."""

    def __init__(self, error: errors.ApiError) -> None:
        super().__init__(error.message)
        self.error = error

    def show(self, file: Any = None) -> None:
        click.echo(self.text, err=True)

    def about(self, what: str) -> ServerError:
        """Prefix the message with the operation that failed, and return the error."""
        self.error.status["message"] = f"{what}: {self.error.message}"
        return self

    @property
    def text(self) -> str:
        error = self.error
        if error.reason == "Invalid" and error.details.get("kind"):
            return _invalid_text(error)
        return (
            f"Error from server ({error.reason}): {error.message}"
            if error.reason
            else f"Error from server: {error.message}"
        )


class Refusals:
    """Collected errors of a command that continues after an error. They are printed at the end, and the command
    fails."""

    def __init__(self) -> None:
        self._errors: list[ServerError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, error: ServerError) -> None:
        self._errors.append(error)

    def end(self) -> None:
        for error in self._errors:
            error.show()
        if self._errors:
            raise SystemExit(1)


def _invalid_text(error: errors.ApiError) -> str:
    details = error.details
    subject = f'The {details["kind"]} "{details.get("name", "")}" is invalid'
    causes = [f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in error.causes]
    if len(causes) == 1:
        return f"{subject}: {causes[0]}"
    return f"{subject}: \n" + "\n".join(f"* {cause}" for cause in dict.fromkeys(causes)) if causes else subject


class Session:
    def __init__(self, access: Access, namespace: str) -> None:
        self.namespace = namespace
        self.access = self._access = access
        self._url = urlsplit(access.server)
        self._connection: http.client.HTTPConnection | None = None
        self._patience_s: float | None = _TIMEOUT_S

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
        data = response.read()
        _warn(response)
        if response.status >= 400:
            raise ServerError(_failure(response.status, data))
        return msgspec.json.decode(data)

    def lines(self, path: str, query: Mapping[str, str], *, accept: str = JSON) -> Iterator[Any]:
        """Yield the events of a watch as they arrive."""
        response = self._open("GET", path, query, None, JSON, accept)
        if response.status >= 400:
            raise ServerError(_failure(response.status, response.read()))
        while line := response.readline():
            yield msgspec.json.decode(line)
        response.read()  # the end of the body, without which the connection cannot take another request

    def pieces(self, path: str, query: Mapping[str, str], *, is_lines: bool = False) -> Iterator[bytes]:
        """Yield the data of a log as it arrives, without a timeout; in complete lines if `is_lines` is set."""
        self._patience_s = None
        self.close()
        response = self._open("GET", path, query, None, JSON, "*/*")
        if response.status >= 400:
            raise ServerError(_failure(response.status, response.read()))
        while piece := response.readline() if is_lines else response.read1(1 << 16):
            yield piece

    def another(self) -> Session:
        """Return a session with a separate connection to the same server."""
        return Session(self._access, self.namespace)

    # -- for connections other than requests -------------------------------------------------------------------------

    def place(self) -> tuple[str, int, ssl.SSLContext | None]:
        is_plain = self._url.scheme == "http"
        return self._url.hostname or "", self._url.port or (80 if is_plain else 443), None if is_plain else self._tls()

    def target(self, path: str) -> str:
        return self._url.path.rstrip("/") + quote(path, safe="/:@")

    def identity(self) -> list[tuple[str, str]]:
        """Return the headers for authentication."""
        return list(self._access.headers())

    def _open(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str, accept: str
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        target = self.target(path) + (f"?{urlencode(query)}" if query else "")
        headers = dict(self._access.headers()) | {"Accept": accept, "User-Agent": "sampan-kubectl"}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            headers["Content-Type"] = content_type
        try:
            self._connection.request(method, target, data, headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise CliError(f"cannot reach the server {self._access.server}: {error}") from None
        except ValueError as error:  # a token or name that is not valid in a header
            raise CliError(f"cannot send the request to {self._access.server}: {error}") from None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._patience_s)
        return http.client.HTTPSConnection(host, port, timeout=self._patience_s, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        try:
            context = tls_context(self._access)
        except AccessError as error:
            raise CliError(str(error)) from None
        assert isinstance(context, ssl.SSLContext)
        return context


def _failure(code: int, body: bytes) -> errors.ApiError:
    try:
        status = msgspec.json.decode(body)
        return errors.from_status(status)
    except (msgspec.MsgspecError, AttributeError):
        return errors.generic(code, body.decode("utf-8", "replace"), is_unexpected=True)


def _warn(response: http.client.HTTPResponse) -> None:
    for header in response.headers.get_all("Warning") or ():
        text = header.partition('"')[2].rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\")
        click.echo(f"Warning: {text}", err=True)


def open_session(options: Mapping[str, Any]) -> Session:
    """Open a session with the access that the flags, $KUBECONFIG, ~/.kube/config or this user's cluster define, in this
    order. A server of the flags replaces that of the kubeconfig, whose credentials stay. The session is closed when the
    command ends."""
    session = _opened(options)
    click.get_current_context().call_on_close(session.close)
    return session


def _opened(options: Mapping[str, Any]) -> Session:
    paths = [Path(options["kubeconfig"])] if options["kubeconfig"] else kubeconfig.default_paths()
    if not options["kubeconfig"] and not any(path.exists() for path in paths):
        if options["server"]:
            access = Access(server=options["server"], token=options["token"], is_insecure=options["insecure"])
            return Session(access, options["namespace"] or "default")
        if (own := cluster_dir(None, "sampan").kubeconfig).exists():
            paths = [own]
    try:
        access = kubeconfig.load(paths, context=options["context_name"])
        namespace = options["namespace"] or kubeconfig.namespace_of(paths, context=options["context_name"])
    except kubeconfig.KubeconfigError as error:
        raise CliError(str(error)) from None
    access.server = options["server"] or access.server
    if options["token"]:
        access.token, access.token_file = options["token"], None
    access.is_insecure |= options["insecure"]
    return Session(access, namespace)
