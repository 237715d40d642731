"""Execution of a Go template (text/template exec): walk the tree, evaluate pipelines, write the output."""

from __future__ import annotations

from typing import Any, NoReturn

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.printers.go_template.functions import FUNCTIONS, TemplateFunction
from sampan.kubectl.printers.go_template.nodes import (
    ActionNode,
    BranchNode,
    ChainNode,
    CommandNode,
    ContentNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    InvocationNode,
    LiteralNode,
    LoopControlNode,
    NilNode,
    PipelineNode,
    TemplateNode,
    TextNode,
    VariableNode,
)
from sampan.kubectl.printers.go_template.parser import Parser
from sampan.kubectl.printers.go_template.values import (
    INVALID,
    CallError,
    Int,
    InterfaceValue,
    TemplateError,
    default_text,
    is_true,
    type_name,
    unwrap,
)

_MAX_DEPTH = 100_000
_MAX_STEPS = 5_000_000


class _NoArgument:
    """The absence of a value from an earlier command of a pipeline."""


_NO_ARGUMENT = _NoArgument()


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Template:
    """A parsed template with the templates that it defines."""

    def __init__(self, *, name: str, text: str, is_missing_key_allowed: bool = True) -> None:
        parser = Parser(name=name, text=text, functions=frozenset(FUNCTIONS))
        parser.parse()
        self.name = name
        self.text = text
        self.trees = parser.templates
        self.is_missing_key_allowed = is_missing_key_allowed

    def render(self, value: Any) -> str:
        """Return the output for a value. Raise TemplateError; its attribute `output` is what was written before."""
        execution = _Execution(self)
        try:
            execution.run(value)
        except TemplateError as error:
            raise TemplateError(str(error), output="".join(execution.output)) from None
        return "".join(execution.output)


class _Execution:
    def __init__(self, template: Template) -> None:
        self.output: list[str] = []
        self._template = template
        self._name = template.name
        self._node: TemplateNode | None = None
        self._variables: list[tuple[str, Any]] = []
        self._steps = 0

    def run(self, value: Any) -> None:
        tree = self._template.trees.get(self._name)
        if tree is None:
            raise TemplateError(f"template: {self._name}: {quote(self._name)} is an incomplete or empty template")
        self._variables = [("$", value)]
        try:
            self._walk(value, tree)
        except RecursionError:
            self._fail(f"exceeded maximum template depth ({_MAX_DEPTH})")

    def _fail(self, message: str) -> NoReturn:
        if self._node is None:
            raise TemplateError(f"template: {self._name}: {message}")
        before = self._template.text[: self._node.position]
        line_start = before.rfind("\n") + 1
        column = len(before[line_start:].encode())
        location = f"{self._template.name}:{1 + before.count(chr(10))}:{column}"
        raise TemplateError(f"template: {location}: executing {quote(self._name)} at <{self._node}>: {message}")

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _walk(self, dot: Any, node: TemplateNode) -> None:
        self._node = node
        self._steps += 1
        if self._steps > _MAX_STEPS:
            self._fail(f"exceeded maximum number of steps ({_MAX_STEPS})")
        match node:
            case TextNode():
                self.output.append(node.text)
            case ActionNode():
                value = self._pipeline(dot, node.pipeline)
                if not node.pipeline.variables:
                    self._node = node
                    value = unwrap(value)
                    self.output.append("<no value>" if value is INVALID else default_text(value))
            case ContentNode():
                for child in node.nodes:
                    self._walk(dot, child)
            case BranchNode():
                mark = len(self._variables)
                try:
                    if node.keyword == "range":
                        self._walk_range(dot, node)
                    else:
                        self._walk_if_or_with(dot, node)
                finally:
                    del self._variables[mark:]
            case LoopControlNode():
                raise _Break if node.keyword == "break" else _Continue
            case InvocationNode():
                self._invoke(dot, node)

    def _walk_if_or_with(self, dot: Any, node: BranchNode) -> None:
        value = self._pipeline(dot, node.pipeline)
        if is_true(value):
            self._walk(value if node.keyword == "with" else dot, node.body)
        elif node.otherwise is not None:
            self._walk(dot, node.otherwise)

    def _walk_range(self, dot: Any, node: BranchNode) -> None:
        value = unwrap(self._pipeline(dot, node.pipeline))
        variables = node.pipeline.variables
        items: Any
        match value:
            case bool() | float() | str() | complex():
                self._fail(f"range can't iterate over {default_text(value)}")
            case int():
                if len(variables) > 1:
                    self._fail(f"can't use {value} to iterate over more than one variable")
                items = ((INVALID, type(value)(number)) for number in range(value))
            case list():
                items = ((Int(index), InterfaceValue(item)) for index, item in enumerate(value))
            case dict():
                items = ((key, InterfaceValue(value[key])) for key in sorted(value))
            case _:
                items = ()
        mark, is_empty = len(self._variables), True
        for key, item in items:
            is_empty = False
            self._set_range_variables(node.pipeline, key, item)
            try:
                self._walk(item, node.body)
            except _Continue:
                pass
            except _Break:
                break
            finally:
                del self._variables[mark:]
        if is_empty and node.otherwise is not None:
            self._walk(dot, node.otherwise)

    def _set_range_variables(self, pipeline: PipelineNode, key: Any, item: Any) -> None:
        values = [key, item][-len(pipeline.variables) :] if pipeline.variables else []
        if pipeline.is_assignment:
            for name, value in zip(pipeline.variables, values, strict=True):
                self._set(name, value)
        elif values:
            self._variables[-len(values) :] = list(zip(pipeline.variables, values, strict=True))

    def _invoke(self, dot: Any, node: InvocationNode) -> None:
        tree = self._template.trees.get(node.name)
        if tree is None:
            self._fail(f"template {quote(node.name)} not defined")
        dot = self._pipeline(dot, node.pipeline) if node.pipeline is not None else INVALID
        name, variables = self._name, self._variables
        self._name, self._variables = node.name, [("$", dot)]
        self._walk(dot, tree)
        self._name, self._variables = name, variables

    # -- pipelines ---------------------------------------------------------------------------------------------------

    def _pipeline(self, dot: Any, pipeline: PipelineNode) -> Any:
        self._node = pipeline
        value: Any = _NO_ARGUMENT
        for command in pipeline.commands:
            value = self._command(dot, command, value)
            if isinstance(value, InterfaceValue):
                value = unwrap(value)
        for name in pipeline.variables:
            if pipeline.is_assignment:
                self._set(name, value)
            else:
                self._variables.append((name, value))
        return value

    def _set(self, name: str, value: Any) -> None:
        for index in range(len(self._variables) - 1, -1, -1):
            if self._variables[index][0] == name:
                self._variables[index] = (name, value)
                return
        self._fail(f"undefined variable: {name}")

    def _variable(self, name: str) -> Any:
        for variable, value in reversed(self._variables):
            if variable == name:
                return value
        self._fail(f"undefined variable: {name}")

    def _command(self, dot: Any, command: CommandNode, final: Any) -> Any:
        first, has_arguments = command.operands[0], len(command.operands) > 1 or final is not _NO_ARGUMENT
        match first:
            case FieldNode():
                self._node = first
                return self._fields(dot, first.names, has_arguments)
            case ChainNode():
                return self._chain(dot, first, has_arguments)
            case IdentifierNode():
                return self._call(dot, first, command, command.operands[1:], final)
            case PipelineNode():
                self._reject_arguments(command, has_arguments)
                return self._pipeline(dot, first)
            case VariableNode():
                self._node = first
                value = self._variable(first.name)
                if not first.names:
                    self._reject_arguments(command, has_arguments)
                    return value
                return self._fields(value, first.names, has_arguments)
        self._node = first
        self._reject_arguments(command, has_arguments)
        if isinstance(first, NilNode):
            self._fail("nil is not a command")
        return dot if isinstance(first, DotNode) else self._literal(first)

    def _literal(self, node: TemplateNode) -> Any:
        assert isinstance(node, LiteralNode)
        return node.value

    def _reject_arguments(self, command: CommandNode, has_arguments: bool) -> None:
        if has_arguments:
            self._fail(f"can't give argument to non-function {command.operands[0]}")

    def _chain(self, dot: Any, chain: ChainNode, has_arguments: bool) -> Any:
        self._node = chain
        if isinstance(chain.term, NilNode):
            self._fail(f"indirection through explicit nil in {chain}")
        value = self._argument(dot, "", chain.term)
        return self._fields(value, chain.names, has_arguments)

    def _fields(self, value: Any, names: list[str], has_arguments: bool) -> Any:
        for index, name in enumerate(names):
            value = self._field(value, name, has_arguments and index == len(names) - 1)
        return value

    def _field(self, value: Any, name: str, has_arguments: bool) -> Any:
        if value is INVALID:
            if not self._template.is_missing_key_allowed:
                self._fail(f"nil data; no entry for key {quote(name)}")
            return INVALID
        if isinstance(value, InterfaceValue) and value.value is None:
            self._fail(f"nil pointer evaluating {type_name(value)}.{name}")
        inner = unwrap(value)
        if not isinstance(inner, dict):
            self._fail(f"can't evaluate field {name} in type {type_name(value)}")
        if has_arguments:
            self._fail(f"{name} is not a method but has arguments")
        if name not in inner:
            if not self._template.is_missing_key_allowed:
                self._fail(f"map has no entry for key {quote(name)}")
            return INVALID
        return InterfaceValue(inner[name])

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call(
        self, dot: Any, node: IdentifierNode, command: TemplateNode, operands: list[TemplateNode], final: Any
    ) -> Any:
        self._node = node
        function, name = FUNCTIONS[node.name], node.name
        count = len(operands) + (final is not _NO_ARGUMENT)
        self._check_count(function, name, count, len(operands))
        if name in ("and", "or"):
            return self._logic(dot, name, operands, final)
        arguments = [self._argument(dot, function.parameter(index), operand) for index, operand in enumerate(operands)]
        if final is not _NO_ARGUMENT:
            arguments.append(self._convert_to_type(final, function.parameter(len(operands))))
        if name == "call":
            arguments.insert(0, str(operands[0]) if operands else default_text(final))
        try:
            return function.call(*arguments)
        except CallError as error:
            self._node = command
            self._fail(f"error calling {name}: {error}")

    def _check_count(self, function: TemplateFunction, name: str, count: int, operand_count: int) -> None:
        fixed = len(function.parameters)
        if function.variadic:
            if count < fixed:
                self._fail(f"wrong number of args for {name}: want at least {fixed} got {operand_count}")
        elif count != fixed:
            self._fail(f"wrong number of args for {name}: want {fixed} got {count}")

    def _logic(self, dot: Any, name: str, operands: list[TemplateNode], final: Any) -> Any:
        """Evaluate `and` and `or`, which skip the operands after the one that decides."""
        value: Any = INVALID
        for operand in operands:
            value = self._argument(dot, "value", operand)
            if is_true(value) == (name == "or"):
                return value
        return value if final is _NO_ARGUMENT else final

    def _argument(self, dot: Any, type: str, node: TemplateNode) -> Any:
        """Evaluate an operand for a parameter of a type; the empty type accepts everything."""
        self._node = node
        match node:
            case DotNode():
                return self._convert_to_type(dot, type)
            case NilNode():
                if type == "string":
                    self._fail("cannot assign nil to string")
                return None if type == "any" else INVALID
            case FieldNode():
                return self._convert_to_type(self._fields(dot, node.names, False), type)
            case VariableNode():
                value = self._variable(node.name)
                return self._convert_to_type(self._fields(value, node.names, False), type)
            case PipelineNode():
                return self._convert_to_type(self._pipeline(dot, node), type)
            case IdentifierNode():
                return self._convert_to_type(self._call(dot, node, node, [], _NO_ARGUMENT), type)
            case ChainNode():
                return self._convert_to_type(self._chain(dot, node, False), type)
        value = self._literal(node)
        if type == "string" and not isinstance(value, str):
            self._fail(f"expected string; found {node}")
        return value

    def _convert_to_type(self, value: Any, type: str) -> Any:
        """Return a value as a parameter of a type receives it. Fail if it does not fit."""
        if type == "any":
            inner = unwrap(value)
            return None if inner is INVALID else inner
        if type != "string":
            return value
        inner = unwrap(value)
        if value is INVALID:
            self._fail("invalid value; expected string")
        if not isinstance(inner, str):
            self._fail(f"wrong type for value; expected string; got {type_name(value if inner is INVALID else inner)}")
        return inner
