"""The stages of a request, in the order of kube-apiserver.

    authenticate -> classify -> impersonate -> limit -> authorize -> read the body -> negotiate -> execute (decode,
    default, convert -> mutating admission -> prepare -> validate -> validating admission -> store) -> respond

HTTP requests enter at `serve`; the loopback transport, whose user is known, enters at `serve_as`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from sampan.api.resource import Resource
from sampan.api.scheme import Scheme
from sampan.apiserver.authn.impersonation import Impersonation
from sampan.apiserver.authz import Chain, Verdict, attributes_of
from sampan.apiserver.authz.authorizer import refused
from sampan.apiserver.endpoints import Endpoints
from sampan.apiserver.registry.behaviour import Handler
from sampan.apiserver.request import negotiation, patches
from sampan.apiserver.request.call import PASSED_ON, Call, Trail, User
from sampan.apiserver.request.negotiation import OBJECT_FORMS, STREAM_FORMS
from sampan.apiserver.response.responses import Answer, no_such_path
from sampan.machinery import errors
from sampan.machinery.flight_recorder import FlightRecorder

Special = Callable[[Call], Awaitable[Answer]]
"""Serves a non-resource path: health, discovery, OpenAPI, metrics, version."""


class Authenticator(Protocol):
    async def authenticate(self, call: Call) -> User:
        """Return the user who sent the request. Raise Unauthorized if its credentials are invalid."""


class Auditor(Protocol):
    def begin(self, call: Call) -> Trail | None:
        """Start the audit record of a classified, authenticated request; return None if it is not audited."""

    def refused(self, call: Call) -> None:
        """Audit a request that failed authentication."""


class Pipeline:
    def __init__(
        self,
        *,
        scheme: Scheme,
        authenticator: Authenticator,
        authorizer: Chain,
        endpoints: Endpoints,
        special: Mapping[str, Special],
        recorder: FlightRecorder | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self._scheme, self._authenticator, self._authorizer = scheme, authenticator, authorizer
        self._impersonation = Impersonation(authorizer=authorizer)
        self.endpoints = endpoints
        self._special = special
        """The handlers by first path element. A handler looks up the longest matching path itself."""
        self._recorder = recorder
        self._auditor = auditor

    async def serve(self, call: Call) -> Answer:
        try:
            call.user = await self._authenticator.authenticate(call)
        except errors.Unauthorized:
            if self._auditor is not None:
                self.classify(call)
                self._auditor.refused(call)
            raise
        return await self.serve_as(call)

    async def serve_as(self, call: Call) -> Answer:
        """Serve a request whose user is known."""
        self.classify(call)
        trail = self._auditor.begin(call) if self._auditor is not None else None
        return await self._act(call) if trail is None else await self._audited(call, trail)

    async def _audited(self, call: Call, trail: Trail) -> Answer:
        call.trail = trail
        try:
            answer = await self._act(call)
        except BaseException as error:
            trail.failed(error)
            raise
        trail.answered(answer)
        return answer

    async def _act(self, call: Call) -> Answer:
        sender = call.user
        await self._impersonation.apply(call)
        if call.trail is not None and call.user is not sender:
            call.trail.impersonating(call.user)
        if self._recorder is None or call.method == "GET":
            await self._let_in(call)
            return await self._carry_out(call)
        return await self._recorded(call, self._recorder)

    async def _let_in(self, call: Call) -> None:
        """Apply flow control and authorization before the body is read."""
        gate = call.gate
        if gate is not None and (turn := gate.enter(call)) is not None:
            await turn
        await self._authorize(call)
        if gate is not None:
            await gate.receive(call)

    async def _authorize(self, call: Call) -> None:
        if call.trail is None:
            await self._authorizer.check(call)
            return
        attributes = attributes_of(call)
        decision = await self._authorizer.decide(attributes)
        call.trail.decided(decision)
        if decision.verdict is not Verdict.ALLOWED:
            raise refused(attributes, decision)

    async def _recorded(self, call: Call, recorder: FlightRecorder) -> Answer:
        """Serve a write and record its outcome in the flight recorder."""
        try:
            await self._let_in(call)
            answer = await self._carry_out(call)
        except errors.ApiError as error:
            recorder.note(
                "apiserver", call.verb, _subject(call), actor=call.user.name, outcome=f"{error.code} {error.reason}"
            )
            raise
        metadata = getattr(getattr(answer, "obj", None), "metadata", None)
        recorder.note(
            "apiserver",
            call.verb,
            _subject(call, metadata.name if metadata is not None else ""),
            actor=call.user.name,
            uid=metadata.uid if metadata is not None else "",
            revision=metadata.resourceVersion if metadata is not None else "",
            outcome=str(getattr(answer, "code", 200)),
        )
        return answer

    def classify(self, call: Call) -> None:
        """Set the resource, its coordinates and the verb of the request from its path and method."""
        route = self._scheme.resolve(call.path)
        if route is None:
            call.verb = call.method.lower()
            return
        path = route.path
        call.resource, call.name = route.resource, path.name
        call.namespace, call.subresource = path.namespace, path.subresource
        call.tail = "/".join(path.rest)
        call.is_old_watch = path.watch
        call.verb = _verb(call)

    async def _carry_out(self, call: Call) -> Answer:
        resource = call.resource
        if resource is None:
            handler = self._special.get(call.path.split("/", 2)[1])
            return await handler(call) if handler is not None else no_such_path()
        behaviour = self.endpoints.registry.behaviour(resource)
        if behaviour.deprecation and call.verb == "watch":  # even if the resource has no watch: lists share its path
            call.warn(behaviour.deprecation)
        _check_verb(call, resource)
        if call.subresource not in PASSED_ON:
            _negotiate(call, resource)
        if behaviour.deprecation and call.verb != "watch":
            call.warn(behaviour.deprecation)
        own = behaviour.handlers.get(call.subresource)
        if own is not None:
            return await own(self.endpoints, call)
        if resource.storage is None:  # a review or binding without a handler
            raise errors.method_not_supported(resource.plural, call.verb, group=resource.group)
        return await self._verb(call)

    async def _verb(self, call: Call) -> Answer:
        handler: Callable[[Call], Awaitable[Answer]] = getattr(self.endpoints, call.verb)
        return await handler(call)


def _subject(call: Call, name: str = "") -> str:
    if call.resource is None:
        return call.path
    parts = (call.resource.qualified, call.namespace, call.name or name, call.subresource)
    return "/".join(part for part in parts if part)


_LOG_FORMS = ("text/plain", *OBJECT_FORMS)
_PROXIED = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BY_METHOD = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call) -> str:
    """Return the verb as authorizers and logs name it, whether or not the path supports it."""
    verb = "watch" if call.is_old_watch else _BY_METHOD.get(call.method, "")
    if call.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _check_verb(call: Call, resource: Resource) -> None:
    """Reject a verb that the resource or the path does not support."""
    if call.subresource == "proxy" and call.name:
        if call.method not in _PROXIED:
            raise errors.generic(405)
        return
    subresource = resource.subresource(call.subresource) if call.subresource else None
    verbs = subresource.verbs if subresource is not None else resource.verbs
    if call.is_old_watch:
        _check_old_watch(call, verbs)
    elif call.verb == "watch" and "list" in verbs and "watch" not in verbs:
        raise errors.method_not_supported(resource.plural, "watch", group=resource.group)
    elif call.verb not in verbs or not _fits_path(call):
        raise errors.generic(405)
    elif resource.namespaced and not call.namespace and call.verb not in ("list", "watch"):
        raise errors.generic(405 if "list" in verbs else 404)


def _fits_path(call: Call) -> bool:
    """Whether the method fits the path, which is that of a collection, an object or a subresource."""
    if call.verb == "create":
        return bool(call.subresource) or not call.name
    return call.method != "HEAD" and (bool(call.name) or call.verb not in ("update", "patch"))


def _check_old_watch(call: Call, verbs: tuple[str, ...]) -> None:
    if "watch" not in verbs:
        raise errors.generic(404)
    if call.method != "GET":
        raise errors.generic(405)


def _negotiate(call: Call, resource: Resource) -> None:
    """Negotiate the form of the response before anything is executed."""
    accept = call.headers.get("Accept", "")
    if call.subresource == "log":
        negotiation.routes(accept, _LOG_FORMS)
        negotiation.negotiate_plain(accept)
        return
    if not resource.is_custom:
        if call.method == "PATCH":
            patches.patch_type(call, is_custom=False)
        negotiation.routes(accept, STREAM_FORMS if call.verb in ("list", "watch") else OBJECT_FORMS)
    has_tables = "list" in resource.verbs or "get" in resource.verbs  # reviews can only be created
    call.form = negotiation.negotiate(accept, is_custom=resource.is_custom, has_tables=has_tables)


__all__ = ["Auditor", "Authenticator", "Handler", "Pipeline", "Special"]
