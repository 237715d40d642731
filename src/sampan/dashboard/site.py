"""The routes below /ui/: the files of the page, log-in, and the API of the page, which needs a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard import request_checks
from sampan.dashboard.cluster_features import ClusterFeatures
from sampan.dashboard.login import Login, LoginRequest, identify
from sampan.dashboard.pass_through import pass_through
from sampan.dashboard.request_checks import IsOwnHost, forbidden, read_json_body
from sampan.dashboard.responses import error_response, json_response, text_response
from sampan.dashboard.sessions import CODE_LIFETIME_S, LoginSession, LoginSessions, OneTimeCodes, SessionArchive
from sampan.dashboard.static_files import StaticFiles
from sampan.dashboard.stream import StreamConnection
from sampan.dashboard.stream.changes import ChangeBudget
from sampan.dashboard.stream.connection import MakeSubscription
from sampan.host.clock import Clock
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed
from sampan.machinery.client.user_api import UserApi, UserApiSource
from sampan.machinery.http.session_cookies import make_session_cookie_name

log = logging.getLogger(__name__)

PREFIX = "ui"
_API = "/ui/api/"
_LOGIN_BYTES = 128 << 10
_MAX_STREAMS_PER_SESSION = 16
_SESSION_CHECK_S = 15.0
_decode_login = msgspec.json.Decoder(LoginRequest).decode

View = Callable[[HttpRequest, UserApi], Awaitable[StreamResponse | None]]
"""The handler of one path below /ui/api/clusters/CLUSTER/."""


class DashboardSite:
    """Routes requests below /ui/. `clusters` are the clusters by name; the page shows the first one first.
    `is_own_host` says whether a name in a Host header means this server. `views` are served below the path of a
    cluster, by name. With an `archive`, sessions survive a restart."""

    def __init__(
        self,
        *,
        clusters: Mapping[str, UserApiSource],
        clock: Clock,
        is_own_host: IsOwnHost,
        cookie_name: Callable[[HttpRequest], str],
        codes: OneTimeCodes,
        views: Mapping[str, View],
        subscriptions: dict[str, MakeSubscription],
        files: StaticFiles,
        archive: SessionArchive | None = None,
    ) -> None:
        self._clusters, self._is_own_host, self._cookie_name = clusters, is_own_host, cookie_name
        self._codes, self._views, self._subscriptions, self._files = codes, views, subscriptions, files
        self._sessions = LoginSessions(clock=clock, archive=archive)
        self._is_stopping = False
        self._login = Login(clusters=clusters, codes=codes, clock=clock)
        self._features = ClusterFeatures(clock=clock)
        self._budget = ChangeBudget()

    async def close(self) -> None:
        self._is_stopping = True
        await self._sessions.stop()

    async def serve(self, request: HttpRequest) -> StreamResponse | None:
        try:
            request_checks.check_host(request, self._is_own_host)
            path = request.raw_path
            if path.startswith(_API):
                return await self._serve_api(request, path.removeprefix(_API))
            if path == f"/{PREFIX}":
                return _redirect_to_page()
            return self._files.respond(request, path.removeprefix(f"/{PREFIX}/"))
        except errors.ApiError as error:
            return error_response(error)
        except ConnectionFailed as error:
            return error_response(errors.service_unavailable(f"the cluster cannot be reached: {error}"))
        except ConnectionError:
            return text_response("", code=400)
        except Exception:
            log.exception("the dashboard request %s %s failed", request.method, request.raw_path[:256])
            return error_response(errors.internal_error("the request failed unexpectedly"))

    async def _serve_api(self, request: HttpRequest, path: str) -> StreamResponse | None:
        if path == "code":
            return await self._issue_code(request)
        request_checks.check_origin(request)
        if self._is_stopping:  # the page must not take an unknown session for the end of its own
            raise errors.service_unavailable("the server is stopping")
        await self._sessions.load()
        if path == "login":
            return await self._log_in(request)
        session = self._session(request)
        request_checks.check_csrf_token(request, session)
        if path == "session":
            return await self._describe(request, session)
        if path == "logout":
            return await self._log_out(request, session)
        self._sessions.touch(self._cookie(request))
        await self._sessions.save_activity()
        root, _, remainder = path.partition("/")
        cluster, _, remainder = remainder.partition("/")
        api = session.apis.get(cluster) if root == "clusters" else None
        if api is None:
            raise errors.generic(404)
        return await self._serve_cluster(request, session, api, remainder)

    async def _serve_cluster(
        self, request: HttpRequest, session: LoginSession, api: UserApi, path: str
    ) -> StreamResponse | None:
        if path.startswith("k8s/"):
            with self._abort_at_session_end(request, session):
                return await pass_through(request, api, path.removeprefix("k8s"))
        if path == "stream":
            return await self._stream(request, session, api)
        view = self._views.get(path)
        if view is None:
            raise errors.generic(404)
        return await view(request, api)

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _cookie(self, request: HttpRequest) -> str:
        return request.cookies.get(self._cookie_name(request), "")

    def _session(self, request: HttpRequest) -> LoginSession:
        session = self._sessions.get(self._cookie(request))
        if session is None:
            raise errors.unauthorized("There is no session: log in.")
        return session

    async def _issue_code(self, request: HttpRequest) -> StreamResponse | None:
        """Issue a one-time code to `sampan dashboard`, for the user whose credentials authenticate this request.
        Browsers do not use this path."""
        if request.method != "POST":
            raise errors.generic(405)
        if any(name in request.headers for name in ("Origin", "Sec-Fetch-Site", "Cookie")):
            raise forbidden("a code cannot be requested by a page")
        apis = {name: await source.open_for_request(request) for name, source in self._clusters.items()}
        user = await identify(next(iter(apis.values())))
        code = {"code": self._codes.issue(apis, user.username), "expiresInSeconds": int(CODE_LIFETIME_S)}
        return json_response(code | {"hasPage": self._files.has_page()}, code=201)

    async def _log_in(self, request: HttpRequest) -> StreamResponse | None:
        body = await read_json_body(request, _LOGIN_BYTES)
        try:
            login_request = _decode_login(body)
        except JSON_ERRORS:
            raise errors.bad_request("the body is not a log-in request") from None
        user, apis = await self._login.log_in(login_request, request.remote)
        if (previous := self._sessions.get(self._cookie(request))) is not None:
            await self._sessions.close(previous)
        identifier, session = await self._sessions.open(user, apis)
        response = json_response(await self._value(session))
        self._set_cookie(request, response, identifier)
        return response

    async def _log_out(self, request: HttpRequest, session: LoginSession) -> StreamResponse | None:
        if request.method != "POST":
            raise errors.generic(405)
        await self._sessions.close(session)
        response = json_response({})
        self._set_cookie(request, response, "")
        return response

    def _set_cookie(self, request: HttpRequest, response: HttpResponse, identifier: str) -> None:
        name, is_secure = self._cookie_name(request), request.scheme == "https"
        path = "/" if name.startswith("__Host-") else f"/{PREFIX}/"
        words = [f"{name}={identifier}", "HttpOnly", f"Path={path}", "SameSite=Strict"]
        words += ["Secure"] if is_secure else []
        words += [] if identifier else ["Max-Age=0"]
        response.headers.add("Set-Cookie", "; ".join(words))

    async def _describe(self, request: HttpRequest, session: LoginSession) -> StreamResponse | None:
        if request.method != "GET":
            raise errors.generic(405)
        return json_response(await self._value(session))

    async def _value(self, session: LoginSession) -> dict[str, Any]:
        descriptions = {name: await self._features.describe(api) for name, api in session.apis.items()}
        clusters = [
            {"name": name, "current": number == 0, "version": description.version, "features": description.features}
            for number, (name, description) in enumerate(descriptions.items())
        ]
        return {
            "user": {"username": session.user.username, "groups": list(session.user.groups)},
            "csrf": session.csrf_token,
            "clusters": clusters,
            "idleSeconds": int(self._sessions.idle_s),
            "remainingSeconds": int(self._sessions.remaining_idle_s(session)),
            "features": clusters[0]["features"],
        }

    async def _stream(self, request: HttpRequest, session: LoginSession, api: UserApi) -> StreamResponse | None:
        if not request_checks.is_websocket(request):
            raise errors.bad_request("the stream is a WebSocket")
        if session.stream_count >= _MAX_STREAMS_PER_SESSION:
            raise errors.too_many_requests("the session has too many open pages", retry_after_s=5)
        cookie = self._cookie(request)
        connection = StreamConnection(
            api=api,
            session=session,
            is_expired=lambda: self._sessions.is_expired(session),
            touch=lambda: self._sessions.touch(cookie),
            make_special=self._subscriptions,
            budget=self._budget,
        )
        session.stream_count += 1
        try:
            return await connection.serve(request)
        finally:
            session.stream_count -= 1

    @contextmanager
    def _abort_at_session_end(self, request: HttpRequest, session: LoginSession) -> Iterator[None]:
        """Abort the connection of a request that is still in progress when the session ends. A terminal, log or watch
        would otherwise continue without a session."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_SESSION_CHECK_S, lambda: check())

        async def disconnect() -> None:
            request.abort()

        def check() -> None:
            nonlocal timer
            if self._sessions.is_expired(session):
                request.abort()
            timer = loop.call_later(_SESSION_CHECK_S, check)

        session.disconnects.add(disconnect)
        try:
            yield
        finally:
            timer.cancel()
            session.disconnects.discard(disconnect)


def cookie_of_port(request: HttpRequest) -> str:
    """Return the name of the session's cookie, for the port at which the request has arrived."""
    address = request.transport.get_extra_info("sockname") if request.transport is not None else None
    port = address[1] if isinstance(address, tuple) else 0
    return make_session_cookie_name(port, is_secure=request.scheme == "https")


def _redirect_to_page() -> StreamResponse | None:
    response = text_response("", code=308)
    response.headers["Location"] = f"/{PREFIX}/"
    return response
