"""Starts the audit trail of each request that the policy selects."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sampan.api import limits
from sampan.apiserver import list_bytes
from sampan.apiserver.audit.log import AuditLog
from sampan.apiserver.audit.policy import Level, Policy
from sampan.apiserver.audit.trail import Trail
from sampan.apiserver.authz.attributes import attributes_of
from sampan.apiserver.call import Call, User
from sampan.apiserver.results import ListAnswer
from sampan.machinery.clock import Clock

if TYPE_CHECKING:
    from sampan.apiserver.conversions import Versions

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
        for chunk in list_bytes.chunks(answer.resource, answer.result, self._versions):
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
