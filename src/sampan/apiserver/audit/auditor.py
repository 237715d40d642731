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
from sampan.api.times import format_micro_time
from sampan.apiserver.audit import policy as rules
from sampan.apiserver.audit.event import Body, Entry, Event, ObjectReference, user_info
from sampan.apiserver.audit.log import AuditLog
from sampan.apiserver.audit.policy import Level, Policy, Verdict
from sampan.apiserver.authz.authorizer import Attributes, Decision, attributes_of
from sampan.apiserver.authz.authorizer import Verdict as AuthorizationVerdict
from sampan.apiserver.request.call import Call, User
from sampan.apiserver.response import json_bytes
from sampan.apiserver.response.responses import (
    Answer,
    BytesAnswer,
    ListAnswer,
    ObjectAnswer,
    StreamAnswer,
    WatchAnswer,
    translated,
)
from sampan.machinery import errors
from sampan.machinery.clock import Clock

if TYPE_CHECKING:
    from sampan.apiserver.response.json_bytes import Versions

_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_LONGEST_AGENT = 1024
_STATUS_PARTS = ("status", "message", "reason", "details", "code")

AsJson = Callable[[ListAnswer], bytes]


class Trail:
    """Writes the stages of a request to the log, at the level of the policy. It ends with `complete`, `failed` or
    `refused`."""

    def __init__(
        self, *, id: str, call: Call, asked: Attributes, verdict: Verdict, log: AuditLog, clock: Clock, as_json: AsJson
    ) -> None:
        self.id = id
        self._call, self._verdict, self._log, self._clock, self._as_json = call, verdict, log, clock, as_json
        self._began = format_micro_time(clock.now())
        self._verb, self._user = asked.verb, user_info(call.user)
        self._object = _reference(asked)
        self._impersonated: dict[str, Any] | None = None
        self._annotations: dict[str, str] = {}
        self._status: dict[str, Any] | None = None
        self._response: Body | None = None

    def received(self) -> None:
        self._emit(rules.RECEIVED)

    def impersonating(self, user: User) -> None:
        self._impersonated = user_info(user)

    def decided(self, decision: Decision) -> None:
        is_allowed = decision.verdict is AuthorizationVerdict.ALLOWED
        self._annotations |= {_DECISION: "allow" if is_allowed else "forbid", _REASON: decision.reason}

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation; the first value of a key is kept."""
        self._annotations.setdefault(key, value)

    def answered(self, answer: Answer) -> None:
        """Record a success; a watch or stream has only started."""
        code = 200 if isinstance(answer, ListAnswer | WatchAnswer | StreamAnswer) else answer.code
        self._status = {"metadata": {}, "code": code}
        if isinstance(answer, WatchAnswer | StreamAnswer):
            self._emit(rules.STARTED)
            return
        if self._verdict.level >= Level.REQUEST_RESPONSE:
            self._response = self._body(answer)
        self._complete_reference(answer)
        self.complete()

    def complete(self) -> None:
        """Record the end of the response or watch."""
        self._emit(rules.COMPLETE)

    def failed(self, fault: BaseException) -> None:
        """Record that the request was rejected, or that the server failed."""
        if isinstance(fault, asyncio.CancelledError | ConnectionError):
            self._status = {"metadata": {}, "status": "Failure", "message": "the request was broken off", "code": 504}
            return self.complete()
        error = fault if isinstance(fault, errors.ApiError) else _translated(fault, self._call)
        if error is None:
            text = f"APIServer panic'd: {type(fault).__name__}"
            reason = "InternalError"
            self._status = {"metadata": {}, "status": "Failure", "message": text, "reason": reason, "code": 500}
            return self._emit(rules.PANIC)
        self._tell(error)
        return self.complete()

    def refused(self, message: str) -> None:
        """Record a failed authentication."""
        self._status = {"metadata": {}, "status": "Failure", "message": message, "reason": "Unauthorized", "code": 401}
        self._emit(rules.STARTED)

    def _tell(self, error: errors.ApiError) -> None:
        status = error.status
        self._status = {"metadata": {}, **{part: status[part] for part in _STATUS_PARTS if part in status}}
        self._status["code"] = error.code
        if self._verdict.level >= Level.REQUEST_RESPONSE:
            self._response = Body(json_codec.encode(status))

    def _body(self, answer: Answer) -> Body | None:
        if isinstance(answer, ObjectAnswer):
            return Body(answer.raw)
        if isinstance(answer, ListAnswer):
            return Body(self._as_json(answer))
        if isinstance(answer, BytesAnswer | WatchAnswer | StreamAnswer):
            return None
        return Body(json_codec.encode(answer.value))

    def _complete_reference(self, answer: Answer) -> None:
        """Add the name of a new object, which may have been generated."""
        metadata = getattr(getattr(answer, "obj", None), "metadata", None)
        ref = self._object
        if ref is not None and metadata is not None and not ref.name and self._verb == "create":
            self._object = ObjectReference(
                ref.resource, ref.namespace, metadata.name, "", ref.apiGroup, ref.apiVersion, "", ref.subresource
            )

    def _emit(self, stage: str) -> None:
        verdict, call = self._verdict, self._call
        if stage in verdict.omitted:
            return
        gate = call.gate
        event = Event(
            kind="Event",
            apiVersion="audit.k8s.io/v1",
            level=rules.NAMES[verdict.level],
            auditID=self.id,
            stage=stage,
            requestURI=gate.target if gate is not None else _target(call),
            verb=self._verb,
            user=self._user,
            impersonatedUser=self._impersonated,
            sourceIPs=_sources(call),
            userAgent=_shortened(call.user_agent),
            objectRef=self._object,
            responseStatus=self._status,
            requestReceivedTimestamp=self._began,
            stageTimestamp=self._began if stage == rules.RECEIVED else format_micro_time(self._clock.now()),
            annotations=self._annotations,
        )
        request = None
        if verdict.level >= Level.REQUEST and call.body and stage != rules.RECEIVED:
            request = Body(call.body, call.headers.get("Content-Type", "").lower())
        self._log.put(Entry(event, request, self._response, verdict.omits_managed_fields))


def _translated(fault: BaseException, call: Call) -> errors.ApiError | None:
    return translated(fault, call) if isinstance(fault, Exception) else None


def _reference(asked: Attributes) -> ObjectReference | None:
    if not asked.is_resource:
        return None
    return ObjectReference(
        resource=asked.resource,
        namespace=asked.namespace,
        name=asked.name,
        apiGroup=asked.group,
        apiVersion=asked.version,
        subresource=asked.subresource,
    )


def _target(call: Call) -> str:
    """Return the URI of a request that came without one, by the loopback transport."""
    query = "&".join(f"{quote(key)}={quote(value)}" for key, value in call.query.pairs())
    return f"{quote(call.path)}?{query}" if query else quote(call.path)


def _sources(call: Call) -> list[str]:
    forwarded = [address.strip() for address in call.headers.get("X-Forwarded-For", "").split(",")]
    last = call.gate.remote if call.gate is not None else "127.0.0.1"
    addresses = [address for address in (*forwarded, call.headers.get("X-Real-Ip", "")) if address]
    return addresses if last in addresses[-1:] or not last else [*addresses, last]


def _shortened(agent: str) -> str:
    return agent if len(agent) <= _LONGEST_AGENT else agent[:_LONGEST_AGENT] + "...TRUNCATED"


_HEADER = "Audit-Id"
_LONGEST_ID = 64
_NOBODY = User("")


class Auditor:
    def __init__(self, *, policy: Policy, log: AuditLog, clock: Clock, versions: Versions) -> None:
        self._policy, self._log, self._clock, self._versions = policy, log, clock, versions

    def begin(self, call: Call) -> Trail | None:
        """Return the trail of a classified request; None if it is not audited."""
        trail = self._trail(call)
        if trail is not None:
            trail.received()
        return trail

    def refused(self, call: Call) -> None:
        """Record a request that failed authentication."""
        call.user = _NOBODY
        trail = self._trail(call)
        if trail is not None:
            trail.refused(_attempted(call))

    def _trail(self, call: Call) -> Trail | None:
        attributes = attributes_of(call)
        verdict = self._policy.verdict(attributes)
        if verdict.level is Level.NONE:
            return None
        id = call.headers.get(_HEADER, "")[:_LONGEST_ID] or str(uuid.uuid4())
        return Trail(
            id=id,
            call=call,
            asked=attributes,
            verdict=verdict,
            log=self._log,
            clock=self._clock,
            as_json=self._list,
        )

    def _list(self, answer: ListAnswer) -> bytes:
        """Return a list as JSON, truncated once it exceeds the size of a line (it is then omitted)."""
        chunks, size = [], 0
        for chunk in json_bytes.list_chunks(answer.resource, answer.result, self._versions):
            chunks.append(chunk)
            size += len(chunk)
            if size > limits.AUDIT_LINE_BYTES:
                break
        return b"".join(chunks)


def _attempted(call: Call) -> str:
    ways = []
    scheme = call.headers.get("Authorization", "").strip().lower().partition(" ")[0]
    if scheme in ("basic", "bearer"):
        ways.append(scheme)
    if call.peer is not None:
        ways.append("x509")
    if ways:
        return f"Authentication failed, attempted: {', '.join(ways)}"
    return "Authentication failed, no credentials provided"
