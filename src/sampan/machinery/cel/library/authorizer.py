"""Authorization checks: `authorizer.group("apps").resource("deployments").check("create").allowed()`.

The variable `authorizer` has an `AuthorizerValue`, with a callback that makes the authorization decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sampan.api import names
from sampan.machinery.cel.checker.declarations import Library, Overload, method
from sampan.machinery.cel.checker.estimate import CallEstimate, fixed_range
from sampan.machinery.cel.checker.types import BOOL, STRING, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import Opaque

_PREFIX = "kubernetes.authorization"
AUTHORIZER = opaque(f"{_PREFIX}.Authorizer")
PATH_CHECK, GROUP_CHECK = opaque(f"{_PREFIX}.PathCheck"), opaque(f"{_PREFIX}.GroupCheck")
RESOURCE_CHECK, DECISION = opaque(f"{_PREFIX}.ResourceCheck"), opaque(f"{_PREFIX}.Decision")
_CHECK_COST = 350_000
"""Two checks fit into the cost limit of one evaluation."""


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """The attributes of a check: a path, or a resource with its selectors, for a service account or for the request's
    user."""

    service_account: tuple[str, str] | None = None
    path: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    verb: str = ""


class DecisionValue(Opaque):
    __slots__ = ("error", "is_allowed", "reason")
    type_name = DECISION.name

    def __init__(self, *, is_allowed: bool, reason: str = "", error: str = "") -> None:
        self.is_allowed, self.reason, self.error = is_allowed, reason, error


Ask = Callable[[AccessAttributes], DecisionValue]


class _AccessCheckValue(Opaque):
    __slots__ = ("ask", "question")

    def __init__(self, ask: Ask, question: AccessAttributes) -> None:
        self.ask, self.question = ask, question

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, _AccessCheckValue) and self.question == other.question

    def __hash__(self) -> int:
        return hash(self.question)


class AuthorizerValue(_AccessCheckValue):
    """The value of the variable `authorizer`."""

    __slots__ = ()
    type_name = AUTHORIZER.name

    def __init__(self, ask: Ask, question: AccessAttributes | None = None) -> None:
        super().__init__(ask, question or AccessAttributes())


class _PathCheck(_AccessCheckValue):
    __slots__ = ()
    type_name = PATH_CHECK.name


class _GroupCheck(_AccessCheckValue):
    __slots__ = ()
    type_name = GROUP_CHECK.name


class ResourceCheckValue(_AccessCheckValue):
    """The value of the variable `authorizer.requestResource`, and of checks under construction."""

    __slots__ = ()
    type_name = RESOURCE_CHECK.name


def _make_setter(kind: type[_AccessCheckValue], field: str) -> Callable[[_AccessCheckValue, str], _AccessCheckValue]:
    def run(asking: _AccessCheckValue, value: str) -> _AccessCheckValue:
        changed = replace(asking.question, **{field: value})  # type: ignore[arg-type]
        return kind(asking.ask, changed)

    return run


def _service_account(asking: _AccessCheckValue, namespace: str, name: str) -> _AccessCheckValue:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return AuthorizerValue(asking.ask, replace(asking.question, service_account=(namespace, name)))


def _resource(asking: _AccessCheckValue, resource: str) -> _AccessCheckValue:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheckValue(asking.ask, replace(asking.question, resource=resource))


def _path(asking: _AccessCheckValue, path: str) -> _AccessCheckValue:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return _PathCheck(asking.ask, replace(asking.question, path=path))


def _check(asking: _AccessCheckValue, verb: str) -> DecisionValue:
    return asking.ask(replace(asking.question, verb=verb))


def _check_row(kind: Any) -> Overload:
    return method(
        kind,
        STRING,
        result=DECISION,
        run=_check,
        cost=lambda *_: _CHECK_COST,
        estimate=lambda *_: CallEstimate(fixed_range(_CHECK_COST)),
    )


LIBRARY = Library(
    {
        "path": [method(AUTHORIZER, STRING, result=PATH_CHECK, run=_path)],
        "group": [method(AUTHORIZER, STRING, result=GROUP_CHECK, run=_make_setter(_GroupCheck, "group"))],
        "serviceAccount": [method(AUTHORIZER, STRING, STRING, result=AUTHORIZER, run=_service_account)],
        "resource": [method(GROUP_CHECK, STRING, result=RESOURCE_CHECK, run=_resource)],
        "subresource": [
            method(RESOURCE_CHECK, STRING, result=RESOURCE_CHECK, run=_make_setter(ResourceCheckValue, "subresource"))
        ],
        "namespace": [
            method(RESOURCE_CHECK, STRING, result=RESOURCE_CHECK, run=_make_setter(ResourceCheckValue, "namespace"))
        ],
        "name": [method(RESOURCE_CHECK, STRING, result=RESOURCE_CHECK, run=_make_setter(ResourceCheckValue, "name"))],
        "fieldSelector": [
            method(
                RESOURCE_CHECK, STRING, result=RESOURCE_CHECK, run=_make_setter(ResourceCheckValue, "field_selector")
            )
        ],
        "labelSelector": [
            method(
                RESOURCE_CHECK, STRING, result=RESOURCE_CHECK, run=_make_setter(ResourceCheckValue, "label_selector")
            )
        ],
        "check": [_check_row(PATH_CHECK), _check_row(RESOURCE_CHECK)],
        "allowed": [method(DECISION, result=BOOL, run=lambda decision: decision.is_allowed)],
        "reason": [method(DECISION, result=STRING, run=lambda decision: decision.reason)],
        "errored": [method(DECISION, result=BOOL, run=lambda decision: bool(decision.error))],
        "error": [method(DECISION, result=STRING, run=lambda decision: decision.error)],
    },
    types=(AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION),
)
