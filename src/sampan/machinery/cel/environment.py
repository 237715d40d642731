"""The public interface: `Environment(variables).compile(source)` returns a `Program`, which can be evaluated often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sampan.api.limits import CEL_CACHED_CHARACTERS, CEL_COST
from sampan.host.bounded_cache import BoundedCache
from sampan.machinery.cel.checker.checker import Checker
from sampan.machinery.cel.checker.declarations import Library, merge
from sampan.machinery.cel.checker.estimate import CostEstimator, Range
from sampan.machinery.cel.checker.format_calls import find_format_issue
from sampan.machinery.cel.checker.types import ObjectType, Type
from sampan.machinery.cel.errors import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    InstantiationError,
    Issue,
    format_issues,
)
from sampan.machinery.cel.library import kubernetes
from sampan.machinery.cel.runtime.compiler import Compiler, Run
from sampan.machinery.cel.runtime.meter import FIRST_SLOT, WORK
from sampan.machinery.cel.runtime.operators import NO_OVERLOAD, BoolKey, key_value
from sampan.machinery.cel.runtime.values import parse_duration, parse_timestamp
from sampan.machinery.cel.syntax.ast import CallNode, ExpressionNode, Literal
from sampan.machinery.cel.syntax.parser import parse
from sampan.machinery.patterns import compile_pattern

_RECURSION_ERROR = "expression recursion limit exceeded"
_LITERAL_CHECKS: Final[Mapping[str, tuple[int, Callable[[str], Any]]]] = {
    "duration": (1, parse_duration),
    "timestamp": (1, parse_timestamp),
    "matches": (2, compile_pattern),
}
"""By name of a function: the number of its operands, and the function that validates the last of them and raises
ValueError."""


class EvaluationResult(NamedTuple):
    value: Any
    cost: int
    work: int = 0
    """What the evaluation did beyond its cost, for the time that it takes."""


class Program:
    """An expression that has been checked. It is compiled with its first evaluation at the latest."""

    __slots__ = (
        "_has_bool_keys",
        "_limit",
        "_locals",
        "_names",
        "_run",
        "estimated_cost",
        "result_type",
        "text",
        "tree",
    )

    def __init__(
        self,
        text: str,
        tree: ExpressionNode,
        *,
        names: Sequence[str],
        result_type: Type,
        estimated_cost: Range,
        cost_limit: int,
    ) -> None:
        self.text, self.tree, self.result_type, self.estimated_cost = text, tree, result_type, estimated_cost
        self._names, self._limit, self._has_bool_keys = tuple(names), cost_limit, False
        self._run: Run | None = None
        self._locals: list[Any] = []

    def compile(self) -> Run:
        """Compile the expression, if it is not compiled yet, and return the function that evaluates it. Raise
        CompileError."""
        if self._run is None:
            compiler = Compiler(self._names)
            try:
                run = compiler.compile(self.tree)
            except RecursionError:
                raise CompileError(format_issues(self.text, [Issue(0, _RECURSION_ERROR)])) from None
            if compiler.failure is not None:
                raise InstantiationError(f"program instantiation failed: {compiler.failure}")
            self._locals = [None] * (compiler.slots - FIRST_SLOT - len(self._names))
            self._has_bool_keys = compiler.has_bool_keys
            self._run = run
        return self._run

    def evaluate(self, variables: Mapping[str, Any], cost_limit: int | None = None) -> Any:
        """Return the value as plain Python objects. Raise CelError. `cost_limit` overrides the limit of the
        environment."""
        return self.run(variables, cost_limit).value

    def run(self, variables: Mapping[str, Any], cost_limit: int | None = None) -> EvaluationResult:
        """Return the value and the cost of the evaluation. Raise CelError."""
        limit = self._limit if cost_limit is None else cost_limit
        evaluate = self._run or self.compile()
        try:
            frame: list[Any] = [0, limit, 0, *[variables[name] for name in self._names], *self._locals]
        except KeyError as error:
            raise EvaluationError(f"no such attribute(s): {error.args[0]}") from None
        try:
            value = evaluate(frame)
        except (TypeError, AttributeError):
            # The value of a variable does not have its declared type.
            raise EvaluationError(NO_OVERLOAD) from None
        except RecursionError:
            raise EvaluationError(_RECURSION_ERROR) from None
        if frame[0] > limit:
            raise CostLimitExceeded
        return EvaluationResult(_restore_bool_keys(value) if self._has_bool_keys else value, frame[0], frame[WORK])


_BYTES_OF_CHARACTER = 400
"""The memory that a program takes for each character of its source, at most."""
_CACHE_BYTES = CEL_CACHED_CHARACTERS * _BYTES_OF_CHARACTER


def _measure(program: Program, limit: int) -> int:
    return _BYTES_OF_CHARACTER * len(program.text)


class Environment:
    """The variables, with their types, and the functions that expressions may use.

    `types` are object types that expressions may construct. `cost_limit` applies to each evaluation.
    """

    def __init__(
        self,
        variables: Mapping[str, Type],
        *,
        libraries: Sequence[Library] = (),
        types: Sequence[Type] = (),
        cost_limit: int = CEL_COST,
        is_homogeneous: bool = True,
    ) -> None:
        """`libraries` are added to those of Kubernetes."""
        objects = [type_ for type_ in variables.values() if isinstance(type_, ObjectType)]
        self._variables = dict(variables)
        self._library = _merge_libraries(tuple(libraries)).with_types((*types, *objects))
        self._cost_limit, self._is_homogeneous = cost_limit, is_homogeneous
        self._programs: BoundedCache[str, Program] = BoundedCache(
            self._check_source, max_entries=4096, max_entry_bytes=_CACHE_BYTES, max_bytes=_CACHE_BYTES, measure=_measure
        )

    def compile(self, source: str) -> Program:
        """Return the compiled program of a source, cached by source. Raise CompileError.

        It takes up to 15 microseconds for each character of the source.
        """
        program = self.check(source)
        program.compile()
        return program

    def check(self, source: str) -> Program:
        """Return the program of a source with its type and estimated cost, as `compile` does, but do not compile it:
        most rules of stored schemas are never evaluated."""
        return self._programs.use(source)

    def _check_source(self, source: str) -> Program:
        try:
            return self._check(source)
        except RecursionError:
            raise CompileError(format_issues(source, [Issue(0, _RECURSION_ERROR)])) from None

    def _check(self, source: str) -> Program:
        tree = parse(source, self._library.macros)
        checker = Checker(source, self._variables, self._library, is_homogeneous=self._is_homogeneous)
        result_type = checker.check(tree)
        check_literals(source, tree)
        return Program(
            source,
            tree,
            names=tuple(self._variables),
            result_type=result_type,
            estimated_cost=CostEstimator(self._variables).cost(tree),
            cost_limit=self._cost_limit,
        )


@cache
def _merge_libraries(libraries: tuple[Library, ...]) -> Library:
    """Return the libraries of Kubernetes together with `libraries`."""
    return merge((*kubernetes(), *libraries))


def _restore_bool_keys(value: Any) -> Any:
    """Return the value with bools restored as keys of maps."""
    if isinstance(value, list):
        return [_restore_bool_keys(item) for item in value]
    if isinstance(value, dict):
        if not any(type(key) is BoolKey for key in value):
            return {key: _restore_bool_keys(item) for key, item in value.items()} if type(value) is dict else value
        return {key_value(key): _restore_bool_keys(item) for key, item in value.items()}
    return value


def check_literals(source: str, tree: ExpressionNode) -> None:
    """Validate the literals of an expression. Raise CompileError."""
    issues = []
    for node in tree.walk():
        if not isinstance(node, CallNode):
            continue
        if node.function == "format" and (issue := find_format_issue(node)):
            issues.append(issue)
        if node.function not in _LITERAL_CHECKS:
            continue
        count, check = _LITERAL_CHECKS[node.function]
        operands = node.children()
        last = operands[-1] if len(operands) == count else None
        if isinstance(last, Literal) and isinstance(last.value, str):
            try:
                check(last.value)
            except ValueError:
                issues.append(Issue(last.offset, f"invalid {node.function} argument"))
    if issues:
        raise CompileError(format_issues(source, issues))
