"""May this user do that? One verdict per call, from a chain of authorizers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sampan.api import fields, gotext, paths
from sampan.apiserver.call import AUTHENTICATED, MASTERS, Call
from sampan.machinery import errors


class Verdict(Enum):
    ALLOWED = 1
    REFUSED = 2
    """Whatever the authorizers after this one would say."""
    UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""
    """Told to the user if the call is refused in the end."""


ALLOWED, UNDECIDED = Decision(Verdict.ALLOWED), Decision(Verdict.UNDECIDED)


class Authorizer(Protocol):
    def decide(self, call: Call) -> Decision:
        """About a call that was classified and whose user is known."""


class Masters:
    """Members of system:masters may do everything."""

    def decide(self, call: Call) -> Decision:
        return ALLOWED if MASTERS in call.user.groups else UNDECIDED


class Discovery:
    """Every authenticated user may look at what there is; everybody at the server's health and version."""

    _OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
    _KNOWN = frozenset({"/api", "/apis", "/openapi"})
    _BELOW = ("/api/", "/apis/", "/openapi/")

    def decide(self, call: Call) -> Decision:
        if call.resource is not None or call.verb != "get" or paths.parse(call.path) is not None:
            return UNDECIDED
        if call.path in self._OPEN:
            return ALLOWED
        is_known = call.path in self._KNOWN or call.path.startswith(self._BELOW)
        return ALLOWED if is_known and AUTHENTICATED in call.user.groups else UNDECIDED


class Chain:
    """The first authorizer that decides does so for all; a call that none allows is refused."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    def check(self, call: Call) -> None:
        """Forbidden, in the real server's words, if the call is not allowed."""
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.decide(call)
            if decision.verdict is Verdict.ALLOWED:
                return
            if decision.reason:
                reasons.append(decision.reason)
            if decision.verdict is Verdict.REFUSED:
                break
        raise refusal(call, "\n".join(reasons))


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def refusal(call: Call, reason: str = "") -> errors.ApiError:
    """The 403 for a call, whether what it asks for exists or not."""
    who = f"User {gotext.quote(call.user.name)} cannot"
    path = paths.parse(call.path)
    if path is None:
        what = f"{who} {call.verb} path {gotext.quote(call.path)}"
        return errors.forbidden("", "", _with_reason(what, reason))
    verb, name = _verb(call, path), path.name or _selected_name(call)
    plural = f"{path.plural}/{path.subresource}" if path.subresource else path.plural
    where = f"in the namespace {gotext.quote(path.namespace)}" if path.namespace else "at the cluster scope"
    what = f"{who} {verb} resource {gotext.quote(plural)} in API group {gotext.quote(path.group)} {where}"
    return errors.forbidden(path.plural, name, _with_reason(what, reason), group=path.group)


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}".translate(_ESCAPES) if reason else what.translate(_ESCAPES)


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call, path: paths.ResourcePath) -> str:
    """Of a classified call, or of one for a resource that is not served."""
    if call.resource is not None:
        return call.verb
    verb = "watch" if path.watch else _VERBS.get(call.method, "")
    if path.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _selected_name(call: Call) -> str:
    """The one name that a selector leaves."""
    try:
        terms = fields.parse(call.query.get("fieldSelector")).exact()
    except fields.FieldSelectorError:
        return ""
    return next((value for field, value in terms if field == "metadata.name"), "")


__all__ = ["ALLOWED", "UNDECIDED", "Authorizer", "Chain", "Decision", "Discovery", "Masters", "Verdict", "refusal"]
