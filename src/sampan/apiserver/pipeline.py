"""The stages of a request, in the order of kube-apiserver.

    authenticate -> classify -> impersonate -> limit -> authorize -> read the body -> negotiate -> execute (decode,
    default, convert -> mutating admission -> prepare -> validate -> validating admission -> store) -> respond

HTTP requests enter at `serve`; the loopback transport, whose user is known, enters at `serve_as`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from sampan.api.resources.resource import Resource
from sampan.api.scheme import Scheme
from sampan.api.semantics.owners import controller_of
from sampan.api.semantics.pods import describe_status
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authn.impersonation import Impersonation
from sampan.apiserver.authz import AuthzDecision, UnionAuthorizer, attributes_of
from sampan.apiserver.authz.authorizer import authorization_error
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.handlers import Handler, ResourceHandlers
from sampan.apiserver.request import negotiation, patches
from sampan.apiserver.request.call import PROXIED_SUBRESOURCES, AuditContext, Call, UserInfo
from sampan.apiserver.request.negotiation import OBJECT_MEDIA_TYPES, STREAM_MEDIA_TYPES
from sampan.apiserver.response.responses import ApiResponse, path_not_found
from sampan.machinery import errors
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, StepParts, collect_parts

_NO_METADATA = ObjectMeta()
NonResourceHandler = Callable[[Call], Awaitable[ApiResponse]]
"""Serves a non-resource path: health, discovery, OpenAPI, metrics, version."""


class Authenticator(Protocol):
    async def authenticate(self, call: Call) -> UserInfo:
        """Return the user who sent the request. Raise Unauthorized if its credentials are invalid."""


class Aggregation(Protocol):
    async def serve(self, call: Call) -> ApiResponse | None:
        """Return the response of another server to a request for its group version; None if this server serves it."""


Execute = Callable[[Call], Awaitable[ApiResponse]]
"""Executes a classified request of a known user."""


class Interceptor(Protocol):
    async def intercept(self, call: Call, execute: Execute) -> ApiResponse:
        """Serve a classified request with `execute`, or delay it, fail it or end its watch: fault injection."""


class Auditor(Protocol):
    def begin(self, call: Call) -> AuditContext | None:
        """Start the audit record of a classified, authenticated request; return None if it is not audited."""

    def record_authentication_failure(self, call: Call) -> None:
        """Audit a request that failed authentication."""


class Pipeline:
    def __init__(
        self,
        *,
        scheme: Scheme,
        authenticator: Authenticator,
        authorizer: UnionAuthorizer,
        endpoints: ApiEndpoints,
        handlers: ResourceHandlers,
        nonresource_handlers: Mapping[str, NonResourceHandler],
        aggregation: Aggregation | None = None,
        recorder: FlightRecorder | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        """`aggregation` has the API groups of other servers."""
        self._scheme, self._authenticator, self._authorizer = scheme, authenticator, authorizer
        self._impersonation = Impersonation(authorizer=authorizer)
        self.endpoints, self.handlers = endpoints, handlers
        self._nonresource_handlers = nonresource_handlers
        """The handlers by first path element. A handler looks up the longest matching path itself."""
        self._recorder = recorder
        self._auditor = auditor
        self._aggregation = aggregation
        self._interceptor: Interceptor | None = None

    def use_interceptor(self, interceptor: Interceptor | None) -> None:
        """Pass all requests to the interceptor, both from the network and from components in this process."""
        self._interceptor = interceptor

    async def serve(self, call: Call) -> ApiResponse:
        try:
            call.user = await self._authenticator.authenticate(call)
        except errors.Unauthorized:
            if self._auditor is not None:
                self.classify(call)
                self._auditor.record_authentication_failure(call)
            raise
        return await self.serve_as(call)

    async def serve_as(self, call: Call) -> ApiResponse:
        """Serve a request whose user is known."""
        self.classify(call)
        audit = self._auditor.begin(call) if self._auditor is not None else None
        return await self._serve_intercepted(call) if audit is None else await self._serve_audited(call, audit)

    async def _serve_intercepted(self, call: Call) -> ApiResponse:
        if self._interceptor is None:
            return await self._execute(call)
        return await self._interceptor.intercept(call, self._execute)

    async def _serve_audited(self, call: Call, audit: AuditContext) -> ApiResponse:
        call.audit = audit
        try:
            response = await self._serve_intercepted(call)
        except BaseException as error:
            audit.record_failure(error)
            raise
        audit.record_response(response)
        return response

    async def _execute(self, call: Call) -> ApiResponse:
        sender = call.user
        await self._impersonation.apply(call)
        if call.audit is not None and call.user is not sender:
            call.audit.record_impersonation(call.user)
        if self._recorder is None or call.method == "GET" or _is_heartbeat(call):
            await self._admit(call)
            return await self._dispatch(call)
        return await self._serve_recorded(call, self._recorder)

    async def _admit(self, call: Call) -> None:
        """Apply flow control and authorization before the body is read."""
        transport = call.transport
        if transport is not None and (turn := transport.enter(call)) is not None:
            await turn
        await self._authorize(call)
        if transport is not None:
            await transport.read_body(call)

    async def _authorize(self, call: Call) -> None:
        if call.audit is None:
            await self._authorizer.check(call)
            return
        attributes = attributes_of(call)
        result = await self._authorizer.authorize(attributes)
        call.audit.record_decision(result)
        if result.decision is not AuthzDecision.ALLOW:
            raise authorization_error(attributes, result)

    async def _serve_recorded(self, call: Call, recorder: FlightRecorder) -> ApiResponse:
        """Serve a write and record its outcome in the flight recorder."""
        if _is_pod_creation(call):
            with collect_parts() as parts:
                return await self._serve_and_note(call, recorder, parts)
        return await self._serve_and_note(call, recorder)

    async def _serve_and_note(
        self, call: Call, recorder: FlightRecorder, parts: StepParts | None = None
    ) -> ApiResponse:
        began = time.perf_counter()
        try:
            await self._admit(call)
            if parts is not None:
                parts.add("authorize", began, time.perf_counter())
            response = await self._dispatch(call)
        except errors.ApiError as error:
            recorder.note(
                "apiserver",
                call.verb,
                _subject(call),
                actor=call.user.name,
                outcome=f"{error.code} {error.reason}",
                took_s=time.perf_counter() - began,
            )
            raise
        obj: Any = getattr(response, "obj", None)
        is_dry_run = bool(call.query.get("dryRun"))
        metadata = getattr(obj, "metadata", None) or _NO_METADATA
        controller = controller_of(obj) if metadata.ownerReferences else None
        recorder.note(
            "apiserver",
            call.verb,
            _subject(call, metadata.name),
            actor=call.user.name,
            uid=metadata.uid,
            revision=metadata.resourceVersion,
            outcome=f"{getattr(response, 'code', 200)}{' dry run' if is_dry_run else ''}",
            took_s=time.perf_counter() - began,
            parts=str(parts or ""),
            state=describe_status(obj.status) if _is_status_report(call, obj) and not is_dry_run else "",
            owner=controller.uid if controller is not None else "",
            generation=metadata.generation,
        )
        return response

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
        call.is_classic_watch = path.watch
        call.verb = _verb(call)

    async def _dispatch(self, call: Call) -> ApiResponse:
        resource = call.resource
        if resource is None:
            if self._aggregation is not None and (response := await self._aggregation.serve(call)) is not None:
                return response
            serve = self._nonresource_handlers.get(call.path.split("/", 2)[1])
            return await serve(call) if serve is not None else path_not_found()
        behavior = self.endpoints.registry.behavior(resource)
        is_watch = call.verb == "watch" and not call.is_classic_watch
        if behavior.deprecation and is_watch:  # even if only lists are supported, which have the same path
            call.warn(behavior.deprecation)
        if resource.is_custom and _lacks_namespace(call, resource):
            return path_not_found()
        _check_verb(call, resource)
        if call.subresource not in PROXIED_SUBRESOURCES:
            _negotiate(call, resource)
        if behavior.deprecation and call.verb != "watch":
            call.warn(behavior.deprecation)
        if resource.is_custom and call.verb in _CHANGES:
            await self.endpoints.compile_schema(resource)
        handler = self.handlers.find(resource, call.subresource)
        if handler is not None:
            return await handler(self.endpoints, call)
        if resource.storage is None:  # a review or binding without a handler
            raise errors.method_not_supported(resource.plural, call.verb, group=resource.group)
        return await _VERBS[call.verb](self.endpoints, call)


_VERBS: Final[Mapping[str, Handler]] = {
    "get": ApiEndpoints.get,
    "list": ApiEndpoints.list,
    "watch": ApiEndpoints.watch,
    "create": ApiEndpoints.create,
    "update": ApiEndpoints.update,
    "patch": ApiEndpoints.patch,
    "delete": ApiEndpoints.delete,
    "deletecollection": ApiEndpoints.deletecollection,
}


def _is_heartbeat(call: Call) -> bool:
    """Whether the request renews a lease. The renewals of a thousand nodes would displace everything else from the
    flight recorder within minutes."""
    resource = call.resource
    return resource is not None and resource.plural == "leases" and call.verb == "update"


def _is_pod_creation(call: Call) -> bool:
    resource = call.resource
    return resource is not None and resource.qualified == "pods" and call.verb == "create" and not call.subresource


def _is_status_report(call: Call, obj: Any) -> bool:
    return call.subresource == "status" and isinstance(obj, Pod)


def _subject(call: Call, name: str = "") -> str:
    if call.resource is None:
        return call.path
    parts = (call.resource.qualified, call.namespace, call.name or name, call.subresource)
    return "/".join(part for part in parts if part)


_LOG_MEDIA_TYPES = ("text/plain", *OBJECT_MEDIA_TYPES)
_OBJECT_VERBS = frozenset({"get", "update", "patch", "delete"})
"""Verbs on the path of an object, which exists only if the resource supports one of them."""
_CHANGES = frozenset({"create", "update", "patch"})
_PROXIED = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_VERB_BY_METHOD = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call) -> str:
    """Return the verb as authorizers and logs name it, whether or not the path supports it."""
    verb = "watch" if call.is_classic_watch else _VERB_BY_METHOD.get(call.method, "")
    if call.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _check_verb(call: Call, resource: Resource) -> None:
    """Reject a verb that the resource or the path does not support."""
    if call.tail and call.subresource != "proxy":
        raise errors.generic(404)
    if call.subresource == "proxy" and call.name:
        if call.method not in _PROXIED:
            raise errors.generic(405)
        return
    subresource = resource.subresource(call.subresource) if call.subresource else None
    verbs = subresource.verbs if subresource is not None else resource.verbs
    if call.is_classic_watch:
        _check_classic_watch(call, verbs)
    elif call.verb == "watch" and "list" in verbs and "watch" not in verbs:
        raise errors.method_not_supported(resource.plural, "watch", group=resource.group)
    elif call.verb not in verbs or not _fits_path(call):
        if resource.is_custom:
            raise errors.method_not_supported(resource.plural, call.verb, group=resource.group)
        has_path = not call.name or bool(call.subresource) or _OBJECT_VERBS.intersection(verbs)
        raise errors.generic(405 if has_path else 404)
    elif _lacks_namespace(call, resource):
        raise errors.generic(405 if "list" in verbs else 404)


def _lacks_namespace(call: Call, resource: Resource) -> bool:
    """Whether the path of a write to a namespaced resource has no namespace."""
    return resource.namespaced and not call.namespace and call.verb not in ("list", "watch")


def _fits_path(call: Call) -> bool:
    """Whether the method fits the path, which is that of a collection, an object or a subresource."""
    if call.verb == "create":
        return bool(call.subresource) or not call.name
    return call.method != "HEAD" and (bool(call.name) or call.verb not in ("update", "patch"))


def _check_classic_watch(call: Call, verbs: tuple[str, ...]) -> None:
    if "watch" not in verbs:
        raise errors.generic(404)
    if call.method != "GET":
        raise errors.generic(405)


def _negotiate(call: Call, resource: Resource) -> None:
    """Negotiate the form of the response before anything is executed."""
    accept = call.headers.get("Accept", "")
    if call.subresource == "log":
        negotiation.routes(accept, _LOG_MEDIA_TYPES)
        negotiation.negotiate_plain(accept)
        return
    if not resource.is_custom:
        if call.method == "PATCH":
            patches.patch_type(call, is_custom=False)
        negotiation.routes(accept, STREAM_MEDIA_TYPES if call.verb in ("list", "watch") else OBJECT_MEDIA_TYPES)
    has_tables = "list" in resource.verbs or "get" in resource.verbs  # reviews can only be created
    call.output_format = negotiation.negotiate(accept, is_custom=resource.is_custom, has_tables=has_tables)


__all__ = ["Auditor", "Authenticator", "Execute", "Handler", "Interceptor", "NonResourceHandler", "Pipeline"]
