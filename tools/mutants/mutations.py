"""Changes of a module's syntax tree that a test should notice.

All changes of a module are compiled into it at once, each behind a comparison of the global `__mutant__` with its
number, so that the module and its tests are imported only once. Only code that runs after the import is changed: the
bodies of functions and lambdas.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

SWITCH = "__mutant__"
_FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPPOSITE: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_Node = TypeVar("_Node", bound=ast.AST)
_LOGGERS = frozenset({"log", "_log", "logger", "_logger"})
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "log"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    number: int
    line: int
    last_line: int
    """The last line of the statement that is changed."""
    name: str
    """The function, the code and its replacement; unique in the module, and independent of line numbers."""


def mutate(source: str, path: str) -> tuple[ast.Module, list[Mutant]]:
    """Return the module with all its changes, and a list of them."""
    mutator = _Mutator()
    tree = ast.parse(source, path)
    tree.body = [mutator.visit_statement(statement) for statement in tree.body]
    tree.body.insert(_count_header_statements(tree), ast.parse(f"{SWITCH} = 0").body[0])
    return ast.fix_missing_locations(tree), mutator.mutants


def _count_header_statements(tree: ast.Module) -> int:
    """Return how many statements must stay first: the docstring and imports from `__future__`."""
    count = 1 if ast.get_docstring(tree) is not None else 0
    while (
        count < len(tree.body) and isinstance(line := tree.body[count], ast.ImportFrom) and line.module == "__future__"
    ):
        count += 1
    return count


class _Mutator(ast.NodeTransformer):
    def __init__(self) -> None:
        self.mutants: list[Mutant] = []
        self._scopes: list[str] = []
        self._depth = 0
        """How many functions and lambdas surround the node; outside of them code runs at import."""
        self._statement: ast.stmt | None = None
        self._names: Counter[str] = Counter()

    def visit_statement(self, node: ast.stmt) -> ast.stmt:
        result = self.visit(node)
        assert isinstance(result, ast.stmt)
        return result

    def visit_expression(self, node: ast.expr) -> ast.expr:
        result = self.visit(node)
        assert isinstance(result, ast.expr)
        return result

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._visit_function(node)
            case ast.Lambda():
                self._depth += 1
                node.body = self.visit_expression(node.body)
                self._depth -= 1
                return node
            case ast.ClassDef():
                return self._visit_class(node)
            case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.pattern():
                return node
            case ast.AnnAssign():
                if node.value is not None:
                    node.value = self.visit_expression(node.value)
                return node
            case ast.stmt():
                return self._change_statement(node)
            case ast.expr():
                return self._change_expression(node)
        return self.generic_visit(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._scopes.append(node.name)
        self._depth += 1
        has_docstring = ast.get_docstring(node, clean=False) is not None
        body = node.body[1:] if has_docstring else node.body
        node.body = node.body[:1] if has_docstring else []
        node.body += [self.visit_statement(statement) for statement in body]
        self._depth -= 1
        self._scopes.pop()
        return node

    def _visit_class(self, node: ast.ClassDef) -> ast.AST:
        self._scopes.append(node.name)
        node.body = [self.visit_statement(statement) for statement in node.body]
        self._scopes.pop()
        return node

    def _change_statement(self, node: ast.stmt) -> ast.AST:
        outer, self._statement = self._statement, node
        replacements = list(_list_statement_changes(node)) if self._depth else []
        original = copy.deepcopy(node) if replacements else node
        result: ast.AST = self.generic_visit(node)
        for changed in replacements:
            condition = self._add(original, changed)
            assert isinstance(result, ast.stmt)
            result = ast.copy_location(ast.If(test=condition, body=[changed], orelse=[result]), node)
        self._statement = outer
        return result

    def _change_expression(self, node: ast.expr) -> ast.AST:
        if not self._depth or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return self.generic_visit(node)
        replacements = list(_list_expression_changes(node))
        original = copy.deepcopy(node) if replacements else node
        result: ast.AST = self.generic_visit(node)
        for changed in replacements:
            condition = self._add(original, changed)
            assert isinstance(result, ast.expr)
            result = ast.copy_location(ast.IfExp(test=condition, body=changed, orelse=result), node)
        return result

    def _add(self, original: ast.AST, changed: ast.AST) -> ast.expr:
        """Record a change and return the condition under which it is in effect."""
        before, after = (" ".join(ast.unparse(node).split()) for node in (original, changed))
        name = f"{'.'.join(self._scopes)}: {before} -> {after}"
        self._names[name] += 1
        if (count := self._names[name]) > 1:
            name += f" (#{count})"
        statement = self._statement or original
        line = getattr(original, "lineno", 0)
        last_line = (
            line if isinstance(statement, ast.If | ast.For | ast.While) else getattr(statement, "end_lineno", line)
        )
        self.mutants.append(Mutant(number=len(self.mutants) + 1, line=line, last_line=last_line, name=name))
        switch = ast.Name(SWITCH, ast.Load())
        return ast.Compare(switch, [ast.Eq()], [ast.Constant(len(self.mutants))])


def _list_statement_changes(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) if not _is_logged(node.value):
            yield ast.Pass()
        case ast.Raise() | ast.Delete() | ast.Continue():
            yield ast.Pass()
        case ast.AugAssign(op=operator):
            yield ast.Pass()
            if type(operator) in _OPPOSITE:
                yield _with(node, op=_OPPOSITE[type(operator)]())
        case ast.Return(value=ast.expr() as value) if not _is_constant(value):
            yield ast.Return(ast.Constant(None))
        case ast.If(test=test) | ast.While(test=test) if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield _with(node, test=ast.UnaryOp(ast.Not(), copy.deepcopy(test)))


def _list_expression_changes(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator]):
            for flipped in _FLIPPED[type(operator)]:
                yield _with(node, ops=[flipped()])
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield copy.deepcopy(operand)
        case ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), copy.deepcopy(test)))
        case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _OPPOSITE:
            if not _is_text(left) and not _is_text(right):
                yield _with(node, op=_OPPOSITE[type(operator)]())
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)


def _with(node: _Node, **changes: object) -> _Node:
    changed = copy.deepcopy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _is_logged(node: ast.expr) -> bool:
    """Whether an expression is a call of a logger, such as `log.info(...)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _LOGGERS and method in _LOG_METHODS
    return False


def _is_constant(node: ast.expr) -> bool:
    """Whether an expression has no value but None, or one whose change is a mutant of its own."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, int))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
