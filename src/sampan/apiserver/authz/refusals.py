"""The errors for requests that are not allowed."""

from __future__ import annotations

from sampan.api import gotext
from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import Decision
from sampan.machinery import errors

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def refusal(asked: Attributes, reason: str = "") -> errors.ApiError:
    """Return the Forbidden error, which does not depend on whether the target exists."""
    who = f"User {gotext.quote(asked.user.name)} cannot"
    if not asked.is_resource:
        what = f"{who} {asked.verb} path {gotext.quote(asked.path)}"
        return errors.forbidden("", "", _with_reason(what, reason))
    where = f"in the namespace {gotext.quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
    resource, group = gotext.quote(asked.whole_resource), gotext.quote(asked.group)
    what = f"{who} {asked.verb} resource {resource} in API group {group} {where}"
    return errors.forbidden(asked.resource, asked.name, _with_reason(what, reason), group=asked.group)


def refused(asked: Attributes, decision: Decision) -> errors.ApiError:
    """Return the error for a rejected request: an internal error if an authorizer failed, otherwise Forbidden."""
    if decision.fault:
        what = asked.path or asked.whole_resource
        return errors.unexpected(f"Internal Server Error: {gotext.quote(what)}: {decision.fault}")
    return refusal(asked, decision.reason)


def _with_reason(what: str, reason: str) -> str:
    return (f"{what}: {reason}" if reason else what).translate(_ESCAPES)
