"""The type checker: resolves names and overloads, and annotates the tree with types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Library, Overload
from sampan.machinery.cel.checker.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    TYPE_NAMES,
    ObjectType,
    OpenObjectType,
    Substitution,
    Type,
    list_of,
    literal_type,
    map_of,
    most_general,
    optional_of,
    parameter,
    type_of,
)
from sampan.machinery.cel.errors import CompileError, Issue, format_issues
from sampan.machinery.cel.escapes import RESERVED, escape_name
from sampan.machinery.cel.runtime.values import TypeValue
from sampan.machinery.cel.syntax.ast import (
    BindNode,
    CallNode,
    Comprehension,
    ExpressionNode,
    Ident,
    ListNode,
    Literal,
    Logical,
    MapNode,
    OptionalMap,
    Select,
    StructNode,
    qualified_name,
)

_MAX_ISSUES = 100
_COMPARABLE: Final = frozenset(
    ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes", "dyn", "any", "error", "parameter")
)


class Checker:
    """Checks one expression. `is_homogeneous` rejects lists and maps of mixed types, except in the arguments of
    `format`, as Kubernetes does."""

    def __init__(
        self,
        source: str,
        variables: Mapping[str, Type],
        library: Library,
        *,
        is_homogeneous: bool,
    ) -> None:
        self._source, self._library, self._is_homogeneous = source, library, is_homogeneous
        self._variables = variables
        self._scopes: list[dict[str, Type]] = []
        self._issues: list[Issue] = []
        self._types = Substitution()
        self._fresh = 0
        self._nodes: list[ExpressionNode] = []
        self._resolved: dict[tuple[str, bool, tuple[Type, ...]], tuple[Sequence[Overload], Type]] = {}
        """Overloads already resolved for arguments of simple types: in long expressions they repeat often."""

    def check(self, node: ExpressionNode) -> Type:
        """Return the type of the whole expression. Raise CompileError with all type errors."""
        result = self._check(node)
        if self._issues:
            raise CompileError(format_issues(self._source, self._issues))
        for checked in self._nodes:
            assert checked.type is not None
            checked.type = self._types.resolve(checked.type, frees_parameters=True)
        return self._types.resolve(result, frees_parameters=True)

    # -- helpers

    def _fail(self, offset: int, message: str) -> Type:
        if len(self._issues) < _MAX_ISSUES:
            self._issues.append(Issue(offset, message))
        return ERROR

    def _check(self, node: ExpressionNode) -> Type:
        result = _CHECKS[node.kind](self, node)
        node.type = result
        self._nodes.append(node)
        return result

    def _create_parameter(self) -> Type:
        self._fresh += 1
        return parameter(f"_var{self._fresh}")

    def _format_type(self, type_: Type) -> str:
        return str(self._types.resolve(type_, frees_parameters=True))

    def _try_assign(self, target: Type, value: Type) -> bool:
        mark = self._types.mark()
        if self._types.assign(target, value):
            return True
        self._types.undo(mark)
        return False

    def _find_variable(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._variables.get(name)

    def _type_name(self, name: str) -> tuple[Type, TypeValue] | None:
        builtin = TYPE_NAMES.get(name)
        if builtin is not None:
            return builtin
        for declared in self._library.types:
            if declared.name == name:
                return declared, TypeValue(name)
            if isinstance(declared, OpenObjectType) and declared.includes(name):
                return OpenObjectType(name), TypeValue(name)
        return None

    # -- nodes

    def _literal(self, node: Literal) -> Type:
        return literal_type(node.value)

    def _ident(self, node: Ident) -> Type:
        name = node.name.removeprefix(".")
        type_ = self._variables.get(name) if node.name[0] == "." else self._find_variable(name)
        if type_ is not None:
            node.name = name
            return type_
        named = self._type_name(name)
        if named is not None:
            node.is_constant, node.constant = True, named[1]
            return type_of(named[0])
        return self._fail(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> Type:
        qualified = qualified_name(node)
        if qualified is not None and not node.is_test and not node.is_optional:
            resolved = self._resolve_qualified_name(node, qualified)
            if resolved is not None:
                return resolved
        operand = self._check(node.operand)
        resolved = self._types.find(operand)
        is_optional = resolved.is_optional
        if is_optional:
            resolved = self._types.find(resolved.parameters[0])
        field = self._field(node, resolved)
        if node.is_test:
            return BOOL
        if node.is_optional or is_optional:
            return field if self._types.find(field).is_optional else optional_of(field)
        return field

    def _resolve_qualified_name(self, node: Select, name: str) -> Type | None:
        """Resolve a qualified name of a type, such as `google.protobuf.Timestamp`, or of a variable; return None if it
        is neither."""
        first = name.partition(".")[0]
        variable = self._variables.get(name)
        if variable is not None and not any(first in scope for scope in self._scopes):
            node.variable, node.operand.type = name, DYN
            return variable
        if self._find_variable(first) is None:
            named = self._type_name(name.removeprefix("."))
            if named is not None:
                node.is_constant, node.constant = True, named[1]
                node.operand.type = DYN
                return type_of(named[0])
        return None

    def _field(self, node: Select, operand: Type) -> Type:
        if operand.kind == "map":
            return operand.parameters[1]
        if isinstance(operand, ObjectType):
            field = operand.fields.get(node.field)
            if field is None and node.field in RESERVED:
                field = operand.fields.get(escape_name(node.field))
            if field is None:
                return self._fail(node.offset, f"undefined field '{node.field}'")
            node.wire_name = field.name
            return field.type
        if operand.is_dyn:
            return DYN if operand.kind != "error" else ERROR
        if operand.kind == "parameter":
            self._try_assign(operand, DYN)
            return DYN
        return self._fail(node.offset, f"type '{self._format_type(operand)}' does not support field selection")

    def _call(self, node: CallNode) -> Type:
        if node.target is not None:
            qualified = qualified_name(node.target)
            if qualified is not None and self._find_variable(qualified.partition(".")[0]) is None:
                name = f"{qualified.removeprefix('.')}.{node.function}"
                if name in self._library.functions:
                    node.function, node.target = name, None
        name = node.function.removeprefix(".")
        overloads = self._library.functions.get(name)
        target = None if node.target is None else self._check(node.target)
        is_homogeneous = self._is_homogeneous
        self._is_homogeneous = is_homogeneous and name != "format"
        args = [self._check(arg) for arg in node.args]
        self._is_homogeneous = is_homogeneous
        if overloads is None:
            return self._fail(node.offset, f"undeclared reference to '{name}' (in container '')")
        node.function = name
        types = args if target is None else [target, *args]
        return self._resolve(node, name, overloads, types, is_method=target is not None)

    def _resolve(
        self, node: CallNode, name: str, overloads: Sequence[Overload], types: Sequence[Type], *, is_method: bool
    ) -> Type:
        """Resolve the overloads that match the argument types; return the type of the result, `dyn` if they differ."""
        types = [self._types.find(type_) for type_ in types]
        if any(type_.kind == "error" for type_ in types):
            return ERROR
        is_simple = not any(type_.parameters or type_.kind == "parameter" for type_ in types)
        key = (name, is_method, tuple(types))
        resolved = self._resolved.get(key) if is_simple else None
        if resolved is not None:
            node.overloads = resolved[0]
            return resolved[1]
        candidates: list[Overload] = []
        result: Type | None = None
        bound: Mapping[str, Type] = {}
        mark = self._types.mark()
        for overload in overloads:
            if overload.is_method != is_method or len(overload.parameters) != len(types):
                continue
            renamed: dict[str, Type] = {}
            parameters = [self._instantiate(type_, renamed) for type_ in overload.parameters]
            is_match = all(
                self._types.assign(type_, argument) for type_, argument in zip(parameters, types, strict=True)
            )
            result_type = self._types.resolve(self._instantiate(overload.result, renamed)) if is_match else ERROR
            bindings = self._types.undo(mark)
            if not is_match:
                continue
            candidates.append(overload)
            if result is None:
                result, bound = result_type, bindings
            elif result != result_type:
                result = DYN
        if result is None:
            shown = [self._format_type(type_) for type_ in types]
            words = f"{shown[0]}.({', '.join(shown[1:])})" if is_method else f"({', '.join(shown)})"
            return self._fail(node.offset, f"found no matching overload for '{name}' applied to '{words}'")
        if len(candidates) == 1 or result is not DYN:
            self._types.restore(bound)
        node.overloads = candidates
        if is_simple and not result.parameters and result.kind != "parameter":
            self._resolved[key] = candidates, result
        return result

    def _instantiate(self, type_: Type, renamed: dict[str, Type]) -> Type:
        """Return the type with fresh parameters in place of the declared ones."""
        if type_.kind == "parameter":
            if type_.name not in renamed:
                renamed[type_.name] = self._create_parameter()
            return renamed[type_.name]
        if not type_.parameters:
            return type_
        return Type(type_.kind, type_.name, [self._instantiate(inner, renamed) for inner in type_.parameters])

    def _logical(self, node: Logical) -> Type:
        name = "_&&_" if node.is_and else "_||_"
        types = [self._check(term) for term in node.terms]
        left = types[0]
        for offset, right in zip(node.offsets, types[1:], strict=True):
            if self._try_assign(BOOL, left) and self._try_assign(BOOL, right):
                left = BOOL
                continue
            if ERROR in (self._types.find(left), self._types.find(right)):
                return ERROR
            shown = f"({self._format_type(left)}, {self._format_type(right)})"
            return self._fail(offset, f"found no matching overload for '{name}' applied to '{shown}'")
        return BOOL

    def _list(self, node: ListNode) -> Type:
        element: Type | None = None
        for index, item in enumerate(node.items):
            type_ = self._check(item)
            if index in node.optional:
                type_ = self._unwrap_optional(item, type_)
            element = self._join(element, type_, item.offset)
        return list_of(element if element is not None else self._create_parameter())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for index, (key_node, value_node) in enumerate(zip(node.keys, node.values, strict=True)):
            key = self._join(key, self._key(key_node), key_node.offset)
            type_ = self._check(value_node)
            if index in node.optional:
                type_ = self._unwrap_optional(value_node, type_)
            value = self._join(value, type_, value_node.offset)
        return map_of(key or self._create_parameter(), value or self._create_parameter())

    def _key(self, node: ExpressionNode) -> Type:
        """Return the type of a key. Lists and maps are rejected: they fail at run time anyway, and maps of maps as keys
        have types that double in size with each level."""
        type_ = self._types.find(self._check(node))
        if type_.parameters and type_.kind != "wrapper":
            return self._fail(node.offset, f"unsupported key type: {self._format_type(type_)}")
        return type_

    def _unwrap_optional(self, node: ExpressionNode, type_: Type) -> Type:
        actual = self._types.find(type_)
        if actual.is_optional:
            return actual.parameters[0]
        if actual.is_dyn:
            return DYN
        shown = self._format_type(actual)
        return self._fail(node.offset, f"expected type 'optional_type({shown})' but found '{shown}'")

    def _join(self, joined_type: Type | None, other: Type, offset: int) -> Type:
        """Return the common type of the previous elements of a list or map literal and one more element."""
        if joined_type is None:
            return other
        if self._try_assign(joined_type, other):
            return most_general(self._types.find(joined_type), self._types.find(other))
        if not self._is_homogeneous:
            return DYN
        return self._fail(
            offset, f"expected type '{self._format_type(joined_type)}' but found '{self._format_type(other)}'"
        )

    def _struct(self, node: StructNode) -> Type:
        for value in node.values:
            self._check(value)
        named = self._type_name(node.name.removeprefix("."))
        if named is None:
            return self._fail(node.offset, f"undeclared reference to '{node.name}' (in container '')")
        declared = named[0]
        if not isinstance(declared, ObjectType):
            return self._fail(node.offset, f"'{node.name}' is not a message type")
        for index, (name, offset, value) in enumerate(zip(node.fields, node.offsets, node.values, strict=True)):
            field = declared.fields.get(name)
            if field is None:
                self._fail(offset, f"undefined field '{name}'")
                continue
            assert value.type is not None
            type_ = self._unwrap_optional(value, value.type) if index in node.optional else value.type
            if not self._try_assign(field.type, type_):
                provided = self._format_type(type_)
                shown = f"expected type of field '{name}' is '{field.type}' but provided type is '{provided}'"
                self._fail(offset, shown)
        return declared

    # -- macros

    def _check_in_scope(self, scope: dict[str, Type], node: ExpressionNode) -> Type:
        self._scopes.append(scope)
        try:
            return self._check(node)
        finally:
            self._scopes.pop()

    def _comprehension(self, node: Comprehension) -> Type:
        range_type = self._types.find(self._check(node.range))
        key, value = self._range(node, range_type)
        if node.variable2 is None:
            is_map = range_type.kind == "map"
            scope = {node.variable: key if is_map else value}
        else:
            scope = {node.variable: key, node.variable2: value}
        if node.predicate is not None:
            self._expect_bool(node, self._check_in_scope(scope, node.predicate))
        transform = None if node.transform is None else self._check_in_scope(scope, node.transform)
        return _RESULTS[node.form](self, node, scope[node.variable], transform)

    def _range(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        """Return the types of the keys (indices of a list) and values that a macro iterates over."""
        if range_type.kind == "list":
            return INT, range_type.parameters[0]
        if range_type.kind == "map":
            return range_type.parameters[0], range_type.parameters[1]
        if range_type.is_dyn:
            return DYN, DYN
        if range_type.kind == "parameter":
            self._try_assign(range_type, DYN)
            return DYN, DYN
        shown = self._format_type(range_type)
        words = f"expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._fail(node.range.offset, words)
        return ERROR, ERROR

    def _expect_bool(self, node: Comprehension, type_: Type) -> None:
        if self._try_assign(BOOL, type_) or self._types.find(type_).kind == "error":
            return
        assert node.predicate is not None
        shown = self._format_type(type_)
        operator = {"all": "_&&_", "exists": "_||_"}.get(node.form)
        if operator is not None:
            words = f"found no matching overload for '{operator}' applied to '(bool, {shown})'"
        else:
            accumulated = {"exists_one": "int"}.get(node.form, "list(dyn)")
            words = f"found no matching overload for '_?_:_' applied to '({shown}, {accumulated}, {accumulated})'"
        self._fail(node.offset, words)

    def _check_sort_by(self, node: Comprehension, element: Type, transform: Type | None) -> Type:
        assert transform is not None
        kind = self._types.find(transform).kind
        if kind not in _COMPARABLE:
            shown = f"list({self._format_type(element)}).(list({self._format_type(transform)}))"
            words = f"found no matching overload for '@sortByAssociatedKeys' applied to '{shown}'"
            return self._fail(node.offset, words)
        return list_of(element)

    def _check_map_entry(self, node: Comprehension, _: Type, transform: Type | None) -> Type:
        assert transform is not None
        entry_type = self._types.find(transform)
        if entry_type.kind == "map":
            return entry_type
        if entry_type.is_dyn:
            return map_of(DYN, DYN)
        shown = f"(map(dyn, dyn), {self._format_type(entry_type)})"
        return self._fail(node.offset, f"found no matching overload for 'cel.@mapInsert' applied to '{shown}'")

    def _bind(self, node: BindNode) -> Type:
        return self._check_in_scope({node.variable: self._check(node.value)}, node.body)

    def _optional_map(self, node: OptionalMap) -> Type:
        target = self._types.find(self._check(node.target))
        if target.is_optional:
            inner = target.parameters[0]
        elif target.is_dyn:
            inner = DYN
        else:
            shown = self._format_type(target)
            return self._fail(node.offset, f"found no matching overload for 'hasValue' applied to '{shown}.()'")
        body = self._check_in_scope({node.variable: inner}, node.body)
        if not node.is_flat:
            return optional_of(body)
        body_type = self._types.find(body)
        if body_type.is_optional or body_type.is_dyn:
            return body_type if body_type.is_optional else optional_of(DYN)
        shown = f"(bool, {self._format_type(body_type)}, optional_type(dyn))"
        return self._fail(node.offset, f"found no matching overload for '_?_:_' applied to '{shown}'")


_CHECKS: Final[Mapping[str, Callable[[Checker, Any], Type]]] = {
    "literal": Checker._literal,
    "ident": Checker._ident,
    "select": Checker._select,
    "call": Checker._call,
    "logical": Checker._logical,
    "list": Checker._list,
    "map": Checker._map,
    "struct": Checker._struct,
    "comprehension": Checker._comprehension,
    "bind": Checker._bind,
    "optional_map": Checker._optional_map,
}
_RESULTS: Final[Mapping[str, Callable[[Checker, Comprehension, Type, Type | None], Type]]] = {
    "all": lambda *_: BOOL,
    "exists": lambda *_: BOOL,
    "exists_one": lambda *_: BOOL,
    "filter": lambda checker, node, element, _: list_of(element),
    "map": lambda checker, node, element, transform: list_of(transform or DYN),
    "transformList": lambda checker, node, element, transform: list_of(transform or DYN),
    "transformMap": lambda checker, node, element, transform: map_of(element, transform or DYN),
    "transformMapEntry": Checker._check_map_entry,
    "sortBy": Checker._check_sort_by,
}
