"""Expressions about admission requests: their variables, as the server validates and evaluates them
(`k8s.io/apiserver/pkg/admission/plugin/cel`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sampan.api import limits
from sampan.machinery.cel.errors import CelError, CostLimitExceeded, EvaluationError, InstantiationError

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


@cache
def namespace_type() -> Type:
    """Return the type of the variable `namespaceObject`."""
    from sampan.machinery.cel.checker.types import INT, STRING, TIMESTAMP, ObjectType, list_of, map_of

    labels = map_of(STRING, STRING)
    metadata = {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING),
        **dict.fromkeys(("labels", "annotations"), labels),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
        "finalizers": list_of(STRING),
    }
    condition = {**dict.fromkeys(("status", "type", "message", "reason"), STRING), "lastTransitionTime": TIMESTAMP}
    conditions = list_of(ObjectType("kubernetes.NamespaceCondition", condition))
    return ObjectType(
        "kubernetes.Namespace",
        {
            "metadata": ObjectType("kubernetes.NamespaceMetadata", metadata),
            "spec": ObjectType("kubernetes.NamespaceSpec", {"finalizers": list_of(STRING)}),
            "status": ObjectType("kubernetes.NamespaceStatus", {"conditions": conditions, "phase": STRING}),
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
        "namespaceObject": namespace_type(),
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
        self,
        variables: Mapping[str, Type],
        *,
        has_variables: bool,
        libraries: Sequence[Library] = (),
        types: Sequence[Type] = (),
    ) -> None:
        """`has_variables` says whether the policy has variables of its own; else `variables` is not declared."""
        from sampan.machinery.cel.checker.types import ObjectType, TypeField
        from sampan.machinery.cel.environment import Environment

        self._fields: dict[str, TypeField] = {}
        composed = ObjectType("kubernetes.variables", {})
        composed.fields = self._fields
        declared = {**variables, "variables": composed} if has_variables else variables
        self._environment = Environment(declared, libraries=libraries, types=types, cost_limit=limits.CEL_COST)
        without_authorizer = {name: type_ for name, type_ in declared.items() if name not in _AUTHORIZER_VARIABLES}
        self._message_environment = Environment(
            without_authorizer, libraries=libraries, types=types, cost_limit=limits.CEL_COST
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

    def message(self, text: str) -> Program:
        """Compile a message expression, which cannot use the authorizer. Raise CelError."""
        return self._compile(self._message_environment, text, ("string",))

    def expression(self, text: str, kinds: Sequence[str] = ()) -> Program:
        """Compile an expression whose result is of one of these kinds. Raise CelError."""
        return self._compile(self._environment, text, kinds)

    @staticmethod
    def _compile(environment: Environment, text: str, kinds: Sequence[str]) -> Program:
        program = _compile(environment, text)
        if kinds and program.result_type.kind not in kinds:
            expected = kinds[0] if len(kinds) == 1 else f"one of [{' '.join(_KIND_NAMES.get(k, k) for k in kinds)}]"
            raise CelError(f"must evaluate to {expected} but got {_type_text(program)}")
        return program

    def mutation(self, text: str, patch_type: str) -> Program:
        """Compile the expression of a mutation: `ApplyConfiguration` or `JSONPatch`. Raise CelError."""
        program = self.expression(text)
        result = program.result_type
        expected = "Object" if patch_type == "ApplyConfiguration" else "list(JSONPatch)"
        if str(result) != expected:
            raise CelError(f"must evaluate to {expected} but got {result}")
        return program


def validating_compiler(*, has_params: bool, has_variables: bool, obj: Type | None = None) -> PolicyExpressionCompiler:
    """Return the compiler of a ValidatingAdmissionPolicy. `obj` is the type of its objects, if it is known."""
    return PolicyExpressionCompiler(policy_variables(has_params=has_params, obj=obj), has_variables=has_variables)


def mutating_compiler(*, has_params: bool, has_variables: bool) -> PolicyExpressionCompiler:
    """Return the compiler of a MutatingAdmissionPolicy."""
    from sampan.machinery.cel.library import mutations

    return PolicyExpressionCompiler(
        policy_variables(has_params=has_params), has_variables=has_variables, libraries=(mutations.LIBRARY,)
    )


_KIND_NAMES = {"null": "null_type"}
_AUTHORIZER_VARIABLES = ("authorizer", "authorizer.requestResource")


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
        try:
            result = program.run(self._values, self.cost_limit)
        except CostLimitExceeded:
            raise
        except CelError as error:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None
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
        "namespaceObject": namespace_type(),
        "request": request_type(),
        "authorizer": AUTHORIZER,
        "authorizer.requestResource": RESOURCE_CHECK,
    }
    return Environment(variables, cost_limit=limits.CEL_COST)


def _type_text(program: Program) -> str:
    text = str(program.result_type)
    return _KIND_NAMES.get(text, text)


def _compile(environment: Environment, text: str) -> Program:
    try:
        return environment.compile(text)
    except InstantiationError:
        raise
    except CelError as error:
        raise CelError(f"compilation failed: {error}") from None


def compile_condition(environment: Environment, text: str) -> Program:
    """Return the program of a boolean expression. Raise CelError."""
    program = _compile(environment, text)
    if program.result_type.kind != "bool":
        raise CelError(f"must evaluate to bool but got {_type_text(program)}")
    return program
