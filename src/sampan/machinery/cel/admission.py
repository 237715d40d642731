"""Expressions about admission requests: their variables, as the server validates and evaluates them
(`k8s.io/apiserver/pkg/admission/plugin/cel`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sampan.api import limits
from sampan.machinery.cel.errors import CelError, EvaluationError

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.declarations import Library
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


def policy_variables(*, has_params: bool, obj: Type | None = None, params: Type | None = None) -> dict[str, Type]:
    """Return the variables of the expressions of a policy. `obj` and `params` are the types of the objects, if they are
    known."""
    from sampan.machinery.cel.checker.types import DYN
    from sampan.machinery.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK

    variables: dict[str, Type] = {
        "object": obj or DYN,
        "oldObject": obj or DYN,
        "request": request_type(),
        "namespaceObject": DYN,
        "authorizer": AUTHORIZER,
        "authorizer.requestResource": RESOURCE_CHECK,
    }
    return {**variables, "params": params or DYN} if has_params else variables


@cache
def policy_environment(*, has_params: bool) -> Environment:
    """Return the environment of the match conditions of a policy."""
    from sampan.machinery.cel.environment import Environment

    return Environment(policy_variables(has_params=has_params), cost_limit=limits.CEL_COST)


class PolicyExpressionCompiler:
    """Compiles the expressions of one policy. A variable can be used by the expressions that are compiled after it."""

    def __init__(
        self, variables: Mapping[str, Type], *, libraries: Sequence[Library] = (), types: Sequence[Type] = ()
    ) -> None:
        from sampan.machinery.cel.checker.types import ObjectType, TypeField
        from sampan.machinery.cel.environment import Environment

        self._fields: dict[str, TypeField] = {}
        composed = ObjectType("kubernetes.variables", {})
        composed.fields = self._fields
        self._environment = Environment(
            {**variables, "variables": composed}, libraries=libraries, types=types, cost_limit=limits.CEL_COST
        )

    def variable(self, name: str, text: str) -> Program:
        """Compile a variable, which later expressions can use even if this one is invalid. Raise CelError."""
        from sampan.machinery.cel.checker.types import DYN, TypeField

        try:
            program = self.expression(text)
        except CelError:
            self._fields[name] = TypeField(name, DYN)
            raise
        self._fields[name] = TypeField(name, program.result_type)
        return program

    def expression(self, text: str, kinds: Sequence[str] = ()) -> Program:
        """Compile an expression whose result is of one of these kinds. Raise CelError."""
        try:
            program = self._environment.compile(text)
        except CelError as error:
            raise CelError(f"compilation failed: {error}") from None
        if kinds and program.result_type.kind not in (*kinds, "dyn", "any"):
            expected = kinds[0] if len(kinds) == 1 else f"one of [{' '.join(_KIND_NAMES.get(k, k) for k in kinds)}]"
            raise CelError(f"must evaluate to {expected} but got {program.result_type}")
        return program

    def mutation(self, text: str, patch_type: str) -> Program:
        """Compile the expression of a mutation: `ApplyConfiguration` or `JSONPatch`. Raise CelError."""
        program = self.expression(text)
        result = program.result_type
        expected = "Object" if patch_type == "ApplyConfiguration" else "list(JSONPatch)"
        is_empty_list = result.kind == "list" and result.parameters[0].kind in ("dyn", "parameter")
        if str(result) != expected and not (is_empty_list and expected != "Object"):
            raise CelError(f"must evaluate to {expected} but got {result}")
        return program


def validating_compiler(*, has_params: bool, obj: Type | None = None) -> PolicyExpressionCompiler:
    """Return the compiler of a ValidatingAdmissionPolicy. `obj` is the type of its objects, if it is known."""
    return PolicyExpressionCompiler(policy_variables(has_params=has_params, obj=obj))


def mutating_compiler(*, has_params: bool) -> PolicyExpressionCompiler:
    """Return the compiler of a MutatingAdmissionPolicy."""
    from sampan.machinery.cel.library import mutations

    return PolicyExpressionCompiler(policy_variables(has_params=has_params), libraries=(mutations.LIBRARY,))


_KIND_NAMES = {"null": "null_type"}


class LazyVariables(dict[str, Any]):
    """The value of `variables`: each is evaluated with its first use, and its cost is counted once."""

    def __init__(self, programs: Mapping[str, Program | CelError], values: Mapping[str, Any]) -> None:
        super().__init__()
        self._programs, self._values = programs, {**values, "variables": self}
        self.cost = 0
        self.cost_limit = limits.CEL_COST
        """The cost limit of each variable."""

    def __missing__(self, name: str) -> Any:
        program = self._programs[name]
        if isinstance(program, CelError):
            raise EvaluationError(str(program))
        result = program.run(self._values, self.cost_limit)
        self.cost += result.cost
        self[name] = result.value
        return result.value


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
