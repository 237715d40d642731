"""Expressions about admission requests: their variables, as the server validates and evaluates them
(`k8s.io/apiserver/pkg/admission/plugin/cel`)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sampan.api import limits
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.types import Type
    from sampan.machinery.cel.environment import Environment, Program


@cache
def request_type() -> Type:
    """Return the type of the variable `request`, an AdmissionRequest without the objects."""
    from sampan.machinery.cel.checker.types import BOOL, DYN, STRING, ObjectType, list_of, map_of

    kind = ObjectType("kubernetes.GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
    resource = ObjectType("kubernetes.GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING))
    user = {"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))}
    return ObjectType(
        "kubernetes.AdmissionRequest",
        {
            "kind": kind,
            "resource": resource,
            "subResource": STRING,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": STRING,
            "name": STRING,
            "namespace": STRING,
            "operation": STRING,
            "userInfo": ObjectType("kubernetes.UserInfo", user),
            "dryRun": BOOL,
            "options": DYN,
        },
    )


@cache
def policy_environment(*, has_params: bool, has_authorizer: bool = True) -> Environment:
    """Return the environment of the expressions of an admission policy, except for those that use `variables`."""
    from sampan.machinery.cel.checker.types import DYN
    from sampan.machinery.cel.environment import Environment
    from sampan.machinery.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK

    variables: dict[str, Type] = {
        "object": DYN,
        "oldObject": DYN,
        "request": request_type(),
        "namespaceObject": DYN,
    }
    if has_params:
        variables["params"] = DYN
    if has_authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    return Environment(variables, cost_limit=limits.CEL_COST)


@cache
def match_condition_environment() -> Environment:
    """Return the environment of the match conditions of webhooks."""
    from sampan.machinery.cel.checker.types import DYN
    from sampan.machinery.cel.environment import Environment
    from sampan.machinery.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK

    variables = {
        "object": DYN,
        "oldObject": DYN,
        "request": request_type(),
        "authorizer": AUTHORIZER,
        "authorizer.requestResource": RESOURCE_CHECK,
    }
    return Environment(variables, cost_limit=limits.CEL_COST)


def compile_condition(environment: Environment, text: str) -> Program:
    """Return the program of a boolean expression. Raise CelError."""
    try:
        program = environment.compile(text)
    except CelError as error:
        raise CelError(f"compilation failed: {error}") from None
    if program.result_type.kind not in ("bool", "dyn", "any"):
        raise CelError(f"must evaluate to bool but got {program.result_type}")
    return program
