"""The validation rules of a custom resource (x-kubernetes-validations), compiled once and evaluated on every write.

The counterpart is `pkg/apiserver/schema/cel` of `k8s.io/apiextensions-apiserver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sampan.api.field_errors import OMITTED, FieldError
from sampan.api.limits import CEL_COST, CUSTOM_RULES_COST
from sampan.api.schema.tree import Schema
from sampan.apiserver.customresources.objects.schema_validator import items_by_key, key_of_item
from sampan.apiserver.customresources.objects.value_checks import UNCORRELATED, is_same
from sampan.machinery.cel import CelError, CompileError, CostLimitExceeded
from sampan.machinery.cel.errors import EvaluationError

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.types import Type
    from sampan.machinery.cel.environment import Environment, Program

_ROOT: Final = "<nil>"
_MAX_MESSAGE_LENGTH: Final = 5120
_NO_OVERLOAD: Final = "no such overload"


class RuleScope:
    """The environment of the rules of one schema node: `self` and `oldSelf` have the type that the schema declares."""

    def __init__(self, schema: Schema, *, is_resource: bool) -> None:
        from sampan.machinery.cel.schemas import declare

        declared = declare(schema, "selfType", is_resource=is_resource)
        self._type: Type | None = declared.type if declared is not None else None
        self.min_size = declared.min_size if declared is not None else 0
        """The size of the smallest value in JSON, in bytes, from which the number of values in a request follows."""
        self.is_declared = declared is not None
        """Whether expressions can access the values of the schema."""
        self._environments: dict[bool, Environment] = {}

    def check(self, source: str, *, has_optional_old: bool) -> Program:
        """Check an expression. Raise CompileError."""
        environment = self._environments.get(has_optional_old)
        if environment is None:
            environment = self._environments[has_optional_old] = self._environment(has_optional_old)
        return environment.check(source)

    def _environment(self, has_optional_old: bool) -> Environment:
        from sampan.machinery.cel.checker.types import optional_of
        from sampan.machinery.cel.environment import Environment

        if self._type is None:
            raise CompileError("unable to convert structural schema to CEL declarations")
        old_type = optional_of(self._type) if has_optional_old else self._type
        return Environment({"self": self._type, "oldSelf": old_type})


class CheckedRule:
    """One rule. `error` and `message_error` say why an expression cannot be used."""

    def __init__(self, source: Mapping[str, Any], scope: RuleScope) -> None:
        self.source = source
        self.rule: str = source.get("rule", "").strip()
        self.has_optional_old = bool(source.get("optionalOldSelf"))
        self.error = self.message_error = ""
        self.program: Program | None = None
        self.message_program: Program | None = None
        try:
            self.program = scope.check(self.rule, has_optional_old=self.has_optional_old)
            if self.program.result_type.kind != "bool":
                self.error = "cel expression must evaluate to a bool"
        except CompileError as error:
            self.error = f"compilation failed: {error}"
        self.uses_old = False
        if self.program is None or self.error:
            return
        self.uses_old = _names_old_value(self.program)
        if message := source.get("messageExpression", "").strip():
            self._check_message(message, scope)

    def _check_message(self, source: str, scope: RuleScope) -> None:
        try:
            self.message_program = scope.check(source, has_optional_old=self.has_optional_old)
            if self.message_program.result_type.kind != "string":
                self.message_error = "messageExpression must evaluate to a string"
        except CompileError as error:
            self.message_error = f"messageExpression compilation failed: {error}"

    def compile(self) -> None:
        """Compile the expressions, so that evaluations need not."""
        for program in (self.program, self.message_program):
            if program is not None:
                program.compile()

    @property
    def message(self) -> str:
        return self.source.get("message", "").strip() or f"failed rule: {self.rule}"

    @property
    def shown(self) -> str:
        """The rule in error messages about its evaluation."""
        return self.source.get("message", "").strip() or self.rule


def _names_old_value(program: Program) -> bool:
    from sampan.machinery.cel.syntax.ast import Ident

    return any(isinstance(node, Ident) and node.name == "oldSelf" for node in program.tree.walk())


class _BudgetExceeded(Exception):
    """The request has used up its cost budget, so that no further rules are evaluated."""


class _Correlation:
    """The value before an update that belongs to a value, from which follows whether the failures of its rules are
    errors or, because nothing has changed, only warnings (`k8s.io/apiserver/pkg/cel/common.CorrelatedObject`)."""

    __slots__ = ("_is_same", "_old", "_uncorrelated", "_value")

    def __init__(self, value: Any, old: Any) -> None:
        self._value, self._old = value, old
        self._is_same: bool | None = None
        self._uncorrelated: _UncorrelatedPart | None = None

    def is_unchanged(self) -> bool:
        if self._is_same is None:
            self._is_same = self._old is not UNCORRELATED and is_same(self._value, self._old)
        return self._is_same

    def of_member(self, name: str, value: Any) -> _Correlation:
        """Return the correlation of a property, or of an entry of a map."""
        old = self._old.get(name, UNCORRELATED) if isinstance(self._old, dict) else UNCORRELATED
        return self.of_part(value, old)

    def of_part(self, value: Any, old: Any) -> _Correlation:
        if old is not UNCORRELATED:
            return _Correlation(value, old)
        if self._uncorrelated is None:
            self._uncorrelated = _UncorrelatedPart(self)
        return self._uncorrelated


class _UncorrelatedPart(_Correlation):
    """A part whose value before the update is not known: it is unchanged if what contains it is."""

    __slots__ = ("_whole",)

    def __init__(self, whole: _Correlation) -> None:
        super().__init__(None, UNCORRELATED)
        self._whole = whole

    def is_unchanged(self) -> bool:
        return self._whole.is_unchanged()

    def of_member(self, name: str, value: Any) -> _Correlation:
        return self

    def of_part(self, value: Any, old: Any) -> _Correlation:
        return self


class _Evaluation:
    """The state of the validation of one object."""

    __slots__ = ("budget", "errors", "warnings")

    def __init__(self) -> None:
        self.budget = CUSTOM_RULES_COST
        self.errors: list[FieldError] = []
        self.warnings: list[FieldError] = []

    def run(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """Evaluate a program at the expense of the budget of the request."""
        try:
            result = program.run(variables, CEL_COST)
        except CostLimitExceeded:
            self.budget = -1
            raise
        self.budget -= result.cost
        if self.budget < 0:
            raise _BudgetExceeded
        return result.value


Validate = Callable[[Any, Any, _Correlation, str, _Evaluation], None]
"""Validates a value, given the value of `oldSelf` (or `UNCORRELATED`), the correlation of the value and its path."""


class RuleFailures(NamedTuple):
    errors: list[FieldError]
    warnings: list[FieldError]
    """Failures of rules for values that an update has not changed."""


class RuleValidator:
    """Evaluates all rules of a schema on an object."""

    def __init__(self, schema: Schema, *, is_resource: bool = True) -> None:
        self._validate = _compile(schema, is_resource=is_resource)

    @property
    def has_rules(self) -> bool:
        return self._validate is not None

    def validate(self, value: Any, old: Any = UNCORRELATED, path: str = "") -> RuleFailures:
        """Return the failures of a value. `old` is the value before an update."""
        evaluation = _Evaluation()
        if self._validate is not None:
            with suppress(_BudgetExceeded):
                self._validate(value, old, _Correlation(value, old), path, evaluation)
        return RuleFailures(evaluation.errors, evaluation.warnings)


def _compile(schema: Schema, *, is_resource: bool) -> Validate | None:
    """Return the function that evaluates the rules of a node and of all nodes below it; None if there are none."""
    rules = _compile_rules(schema, is_resource=is_resource)
    below = _compile_below(schema)
    if rules is None or below is None:
        return rules or below

    def validate(value: Any, old: Any, correlation: _Correlation, path: str, evaluation: _Evaluation) -> None:
        rules(value, old, correlation, path, evaluation)
        below(value, old, correlation, path, evaluation)

    return validate


def _compile_below(schema: Schema) -> Validate | None:
    if schema.type == "array" and schema.items is not None:
        return _compile_items(schema, schema.items)
    properties = {
        name: check_child
        for name, child in schema.properties.items()
        if (check_child := _compile(child, is_resource=child.embedded)) is not None
    }
    additional = schema.additional
    other = _compile(additional, is_resource=additional.embedded) if additional is not None else None
    if not properties and other is None:
        return None

    def validate(value: Any, old: Any, correlation: _Correlation, path: str, evaluation: _Evaluation) -> None:
        if not isinstance(value, dict):
            return
        before: dict[str, Any] = old if isinstance(old, dict) else {}
        for name, member in value.items():
            check = properties.get(name)
            if check is not None:
                part, field_path = correlation.of_member(name, member), f"{path}.{name}" if path else name
                check(member, before.get(name, UNCORRELATED), part, field_path, evaluation)
            elif other is not None and name not in schema.properties:
                part, field_path = correlation.of_member(name, member), f"{path}[{name}]"
                other(member, before.get(name, UNCORRELATED), part, field_path, evaluation)

    return validate


def _compile_items(schema: Schema, items: Schema) -> Validate | None:
    check = _compile(items, is_resource=items.embedded)
    if check is None:
        return None
    keys = schema.list_keys if schema.list_type == "map" else ()

    def validate(value: Any, old: Any, correlation: _Correlation, path: str, evaluation: _Evaluation) -> None:
        if not isinstance(value, list):
            return
        before = items_by_key(old, keys) if keys and isinstance(old, list) else {}
        for index, item in enumerate(value):
            old_item = before.get(key_of_item(item, keys), UNCORRELATED) if before else UNCORRELATED
            check(item, old_item, correlation.of_part(item, old_item), f"{path}[{index}]", evaluation)

    return validate


def _compile_rules(schema: Schema, *, is_resource: bool) -> Validate | None:
    sources: Sequence[Mapping[str, Any]] = (schema.openapi or {}).get("x-kubernetes-validations") or ()
    if not sources:
        return None
    from sampan.machinery.cel.schemas import value_adapter

    scope = RuleScope(schema, is_resource=is_resource)
    rules = [CheckedRule(source, scope) for source in sources]
    for rule in rules:
        rule.compile()
    adapt = value_adapter(schema) or _identity
    shown_type = schema.type or "object"

    def validate(value: Any, old: Any, correlation: _Correlation, path: str, evaluation: _Evaluation) -> None:
        if value is None:
            return
        if old is None:
            old = UNCORRELATED
        variables = _Variables(adapt(value), UNCORRELATED if old is UNCORRELATED else adapt(old))
        for rule in rules:
            if rule.uses_old and old is UNCORRELATED and not rule.has_optional_old:
                continue
            evaluation.errors += _evaluate(rule, value, variables, correlation, path, shown_type, evaluation)
            if evaluation.budget < 0:
                raise _BudgetExceeded

    return validate


def _identity(value: Any) -> Any:
    return value


class _Variables:
    """The variables `self` and `oldSelf` of the rules of one value, with a plain and with an optional `oldSelf`."""

    __slots__ = ("optional", "plain")

    def __init__(self, value: Any, old: Any) -> None:
        from sampan.machinery.cel.runtime.values import NONE, OptionalValue

        self.plain = {"self": value, "oldSelf": None if old is UNCORRELATED else old}
        self.optional = {"self": value, "oldSelf": NONE if old is UNCORRELATED else OptionalValue(old)}

    def select(self, rule: CheckedRule) -> dict[str, Any]:
        return self.optional if rule.has_optional_old else self.plain


def _evaluate(
    rule: CheckedRule,
    value: Any,
    variables: _Variables,
    correlation: _Correlation,
    path: str,
    shown_type: str,
    evaluation: _Evaluation,
) -> Iterator[FieldError]:
    """Yield the error of a rule that does not hold, or cannot be evaluated. For an unchanged value, a rule that does
    not hold causes a warning instead, unless it compares the value with the one before."""
    field_path = path or _ROOT
    if rule.program is None or rule.error:
        yield FieldError.invalid(field_path, shown_type, f"rule compile error: {rule.error}")
        return
    try:
        if evaluation.run(rule.program, variables.select(rule)) is True:
            return
    except CostLimitExceeded as error:
        why = (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.shown}"
        )
        yield FieldError.invalid(field_path, shown_type, why)
        return
    except _BudgetExceeded:
        text = "validation failed due to running out of cost budget, no further validation rules will be run"
        yield FieldError.invalid(field_path, shown_type, text)
        return
    except EvaluationError as error:
        if str(error).startswith(_NO_OVERLOAD):
            why = "call arguments did not match a supported operator, function or macro signature"
            yield FieldError.invalid(field_path, shown_type, f"'{error}': {why} for rule: {rule.shown}")
        else:
            yield FieldError.invalid(field_path, shown_type, f"{error} evaluating rule: {rule.shown}")
        return
    shown_value = OMITTED if isinstance(value, dict | list) else value
    failure = _failure(rule, _join_paths(path, rule.source.get("fieldPath", "")), shown_value, variables, evaluation)
    if not rule.uses_old and correlation.is_unchanged():
        evaluation.warnings.append(failure)
    else:
        yield failure


def _join_paths(path: str, field_path: str) -> str:
    """Return the path of the field that a rule names, relative to its own."""
    relative = field_path.strip()
    if not relative:
        return path or _ROOT
    relative = relative if relative.startswith("[") else relative.removeprefix(".")
    if not path:
        return relative
    return path + relative if relative.startswith("[") else f"{path}.{relative}"


def _failure(rule: CheckedRule, path: str, value: Any, variables: _Variables, evaluation: _Evaluation) -> FieldError:
    message = _message(rule, variables, evaluation) or rule.message
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return FieldError.forbidden(path, message)
        case "FieldValueRequired":
            return FieldError.required(path, message)
        case "FieldValueDuplicate":
            return FieldError.duplicate(path, value)
    return FieldError.invalid(path, value, message)


def _message(rule: CheckedRule, variables: _Variables, evaluation: _Evaluation) -> str:
    """Return the text of the rule's messageExpression; empty if it has none, or if that fails."""
    if rule.message_program is None:
        return ""
    try:
        text = evaluation.run(rule.message_program, variables.select(rule))
    except (CelError, _BudgetExceeded):
        return ""
    message = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in message or len(message) > _MAX_MESSAGE_LENGTH else message
