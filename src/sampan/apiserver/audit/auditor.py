"""The audit event of one request, from its arrival to the end of the response, if the policy selects it.

The counterparts are `k8s.io/apiserver/pkg/endpoints/filters/audit.go` and `k8s.io/apiserver/pkg/audit/request.go`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.api.values.times import format_micro_time
from sampan.apiserver.audit import policy as rules
from sampan.apiserver.audit.buffer import AuditBackends
from sampan.apiserver.audit.event import AuditBody, AuditEntry, AuditEvent, ObjectReference, user_info
from sampan.apiserver.audit.policy import AuditLevel, AuditPolicy, RequestAuditConfig
from sampan.apiserver.authz.authorizer import Attributes, AuthzDecision, AuthzResult, attributes_of
from sampan.apiserver.request.call import Call, UserInfo
from sampan.apiserver.response import json_bytes
from sampan.apiserver.response.responses import (
    ApiResponse,
    ListResponse,
    ObjectResponse,
    RawResponse,
    StreamedResponse,
    WatchResponse,
    translate_storage_error,
)
from sampan.host.clock import Clock
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.response.responses import VersionConverter

_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_MAX_USER_AGENT_LENGTH = 1024
_STATUS_PARTS = ("status", "message", "reason", "details", "code")

AsJson = Callable[[ListResponse], bytes]


class RequestAudit:
    """Passes the stages of a request to the backends, at the level of the policy. It ends with `complete`,
    `record_failure` or `record_authentication_failure`."""

    def __init__(
        self,
        *,
        id: str,
        call: Call,
        attributes: Attributes,
        audit_config: RequestAuditConfig,
        backends: AuditBackends,
        clock: Clock,
        as_json: AsJson,
    ) -> None:
        self.id = id
        self._call, self._audit_config, self._clock, self._as_json = call, audit_config, clock, as_json
        self._backends = backends
        self._began = format_micro_time(clock.now())
        self._verb, self._user = attributes.verb, user_info(call.user)
        self._object = _reference(attributes)
        self._impersonated: dict[str, Any] | None = None
        self._annotations: dict[str, str] = {}
        self._status: dict[str, Any] | None = None
        self._response: AuditBody | None = None

    def record_received(self) -> None:
        self._emit(rules.RECEIVED)

    def record_impersonation(self, user: UserInfo) -> None:
        self._impersonated = user_info(user)

    def record_decision(self, result: AuthzResult) -> None:
        is_allowed = result.decision is AuthzDecision.ALLOW
        self._annotations |= {_DECISION: "allow" if is_allowed else "forbid", _REASON: result.reason}

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation; the first value of a key is kept."""
        self._annotations.setdefault(key, value)

    def record_response(self, response: ApiResponse) -> None:
        """Record a success; a watch or stream has only started."""
        code = 200 if isinstance(response, ListResponse | WatchResponse | StreamedResponse) else response.code
        self._status = {"metadata": {}, "code": code}
        if isinstance(response, WatchResponse | StreamedResponse):
            self._emit(rules.STARTED)
            return
        if self._audit_config.level >= AuditLevel.REQUEST_RESPONSE:
            self._response = self._body(response)
        self._complete_reference(response)
        self.complete()

    def complete(self) -> None:
        """Record the end of the response or watch."""
        self._emit(rules.COMPLETE)

    def record_failure(self, exception: BaseException) -> None:
        """Record that the request was rejected, or that the server failed."""
        if isinstance(exception, asyncio.CancelledError | ConnectionError):
            self._status = {"metadata": {}, "status": "Failure", "message": "the request was cancelled", "code": 504}
            return self.complete()
        error = exception if isinstance(exception, errors.ApiError) else _translate_error(exception, self._call)
        if error is None:
            text = f"APIServer panic'd: {type(exception).__name__}"
            reason = "InternalError"
            self._status = {"metadata": {}, "status": "Failure", "message": text, "reason": reason, "code": 500}
            return self._emit(rules.PANIC)
        self._record_status(error)
        return self.complete()

    def record_authentication_failure(self, message: str) -> None:
        """Record a failed authentication."""
        self._status = {"metadata": {}, "status": "Failure", "message": message, "reason": "Unauthorized", "code": 401}
        self._emit(rules.STARTED)

    def _record_status(self, error: errors.ApiError) -> None:
        status = error.status
        self._status = {"metadata": {}, **{part: status[part] for part in _STATUS_PARTS if part in status}}
        self._status["code"] = error.code
        if self._audit_config.level >= AuditLevel.REQUEST_RESPONSE:
            self._response = AuditBody(json_codec.encode(status))

    def _body(self, response: ApiResponse) -> AuditBody | None:
        if isinstance(response, ObjectResponse):
            return AuditBody(response.raw)
        if isinstance(response, ListResponse):
            return AuditBody(self._as_json(response))
        if isinstance(response, RawResponse | WatchResponse | StreamedResponse):
            return None
        return AuditBody(json_codec.encode(response.value))

    def _complete_reference(self, response: ApiResponse) -> None:
        """Add the name of a new object, which may have been generated."""
        metadata = getattr(getattr(response, "obj", None), "metadata", None)
        ref = self._object
        if ref is not None and metadata is not None and not ref.name and self._verb == "create":
            self._object = ObjectReference(
                ref.resource, ref.namespace, metadata.name, "", ref.apiGroup, ref.apiVersion, "", ref.subresource
            )

    def _emit(self, stage: str) -> None:
        audit_config, call = self._audit_config, self._call
        if stage in audit_config.omitted:
            return
        transport = call.transport
        event = AuditEvent(
            kind="Event",
            apiVersion="audit.k8s.io/v1",
            level=rules.NAMES[audit_config.level],
            auditID=self.id,
            stage=stage,
            requestURI=transport.target if transport is not None else _target(call),
            verb=self._verb,
            user=self._user,
            impersonatedUser=self._impersonated,
            sourceIPs=_sources(call),
            userAgent=_truncate_agent(call.user_agent),
            objectRef=self._object,
            responseStatus=self._status,
            requestReceivedTimestamp=self._began,
            stageTimestamp=self._began if stage == rules.RECEIVED else format_micro_time(self._clock.now()),
            annotations=self._annotations,
        )
        request = None
        if audit_config.level >= AuditLevel.REQUEST and call.body and stage != rules.RECEIVED:
            request = AuditBody(call.body, call.headers.get("Content-Type", "").lower())
        self._backends.put(AuditEntry(event, request, self._response, audit_config.omits_managed_fields))


def _translate_error(exception: BaseException, call: Call) -> errors.ApiError | None:
    return translate_storage_error(exception, call) if isinstance(exception, Exception) else None


def _reference(attributes: Attributes) -> ObjectReference | None:
    if not attributes.is_resource:
        return None
    return ObjectReference(
        resource=attributes.resource,
        namespace=attributes.namespace,
        name=attributes.name,
        apiGroup=attributes.group,
        apiVersion=attributes.version,
        subresource=attributes.subresource,
    )


def _target(call: Call) -> str:
    """Return the URI of a request that came without one, by the loopback transport."""
    query = "&".join(f"{quote(key)}={quote(value)}" for key, value in call.query.pairs())
    return f"{quote(call.path)}?{query}" if query else quote(call.path)


def _sources(call: Call) -> list[str]:
    forwarded = [address.strip() for address in call.headers.get("X-Forwarded-For", "").split(",")]
    last = call.transport.remote_address if call.transport is not None else "127.0.0.1"
    addresses = [address for address in (*forwarded, call.headers.get("X-Real-Ip", "")) if address]
    return addresses if last in addresses[-1:] or not last else [*addresses, last]


def _truncate_agent(agent: str) -> str:
    return agent if len(agent) <= _MAX_USER_AGENT_LENGTH else agent[:_MAX_USER_AGENT_LENGTH] + "...TRUNCATED"


_HEADER = "Audit-Id"
_MAX_AUDIT_ID_LENGTH = 64
_NOBODY = UserInfo("")


class PolicyAuditor:
    def __init__(
        self, *, policy: AuditPolicy, backends: AuditBackends, clock: Clock, versions: VersionConverter
    ) -> None:
        self._policy, self._backends, self._clock, self._versions = policy, backends, clock, versions

    def begin(self, call: Call) -> RequestAudit | None:
        """Return the audit context of a classified request; None if it is not audited."""
        request_audit = self._request_audit(call)
        if request_audit is not None:
            request_audit.record_received()
        return request_audit

    def record_authentication_failure(self, call: Call) -> None:
        """Record a request that failed authentication."""
        call.user = _NOBODY
        request_audit = self._request_audit(call)
        if request_audit is not None:
            request_audit.record_authentication_failure(_describe_authentication_attempt(call))

    def _request_audit(self, call: Call) -> RequestAudit | None:
        attributes = attributes_of(call)
        audit_config = self._policy.evaluate(attributes)
        if audit_config.level is AuditLevel.NONE:
            return None
        id = call.headers.get(_HEADER, "")[:_MAX_AUDIT_ID_LENGTH] or str(uuid.uuid4())
        return RequestAudit(
            id=id,
            call=call,
            attributes=attributes,
            audit_config=audit_config,
            backends=self._backends,
            clock=self._clock,
            as_json=self._list,
        )

    def _list(self, response: ListResponse) -> bytes:
        """Return a list as JSON. Stop encoding as soon as it exceeds the maximum size of a line: such a list is omitted
        from the event."""
        chunks, size = [], 0
        for chunk in json_bytes.list_chunks(response.resource, response.result, self._versions):
            chunks.append(chunk)
            size += len(chunk)
            if size > limits.AUDIT_LINE_BYTES:
                break
        return b"".join(chunks)


def _describe_authentication_attempt(call: Call) -> str:
    ways = []
    scheme = call.headers.get("Authorization", "").strip().lower().partition(" ")[0]
    if scheme in ("basic", "bearer"):
        ways.append(scheme)
    if call.client_certificate is not None:
        ways.append("x509")
    if ways:
        return f"Authentication failed, attempted: {', '.join(ways)}"
    return "Authentication failed, no credentials provided"
