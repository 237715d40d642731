"""Types of expressions.

`max_size` is the maximum number of characters, bytes, elements or entries of a value, if the schema declares it; only
the cost estimation uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.runtime.values import TypeValue

Kind = str
SCALARS: Final = frozenset(("bool", "int", "uint", "double", "duration", "timestamp"))


class Type:
    """A type: its kind, its name, and its parameters (the element of a list, key and value of a map)."""

    __slots__ = ("kind", "max_size", "name", "parameters")

    def __init__(
        self, kind: Kind, name: str = "", parameters: Sequence[Type] = (), *, max_size: int | None = None
    ) -> None:
        self.kind, self.name, self.parameters, self.max_size = kind, name or kind, tuple(parameters), max_size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.name == other.name
            and self.parameters == other.parameters
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.parameters))

    def __repr__(self) -> str:
        return f"Type({self})"

    def __str__(self) -> str:
        if self.kind == "list":
            return f"list({self.parameters[0]})"
        if self.kind == "map":
            return f"map({self.parameters[0]}, {self.parameters[1]})"
        if self.kind == "type":
            return f"type({self.parameters[0]})" if self.parameters else "type"
        if self.kind == "wrapper":
            return f"wrapper({self.parameters[0]})"
        if self.kind == "opaque" and self.parameters:
            return f"{self.name}({', '.join(map(str, self.parameters))})"
        return self.name

    @property
    def is_dyn(self) -> bool:
        return self.kind in ("dyn", "any", "error")

    @property
    def is_optional(self) -> bool:
        return self.kind == "opaque" and self.name == "optional_type"


class TypeField:
    """A field of an object. `name` is the key in the value; the object's `fields` are keyed by escaped names."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type_: Type) -> None:
        self.name, self.type = name, type_


class ObjectType(Type):
    """An object with fields. Its values are mappings."""

    __slots__ = ("fields",)

    def __init__(self, name: str, fields: Mapping[str, Type | TypeField], *, max_size: int | None = None) -> None:
        super().__init__("object", name, max_size=max_size)
        self.fields: Mapping[str, TypeField] = {
            key: field if isinstance(field, TypeField) else TypeField(key, field) for key, field in fields.items()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and other.kind == "object" and other.name == self.name

    def __hash__(self) -> int:
        return hash(("object", self.name))


class _AnyFields(Mapping[str, TypeField]):
    """The fields of an open object type: every name, with a value of any type."""

    def __getitem__(self, name: str) -> TypeField:
        return TypeField(name, DYN)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class OpenObjectType(ObjectType):
    """An object type with any fields. The types of its fields have qualified names: `Object.spec` for `spec`."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, {})
        self.fields = _AnyFields()

    def includes(self, name: str) -> bool:
        """Whether a name is that of this type or of the type of one of its fields."""
        return name == self.name or name.startswith(f"{self.name}.")


BOOL, INT, UINT, DOUBLE, STRING, BYTES = (
    Type("bool"),
    Type("int"),
    Type("uint"),
    Type("double"),
    Type("string"),
    Type("bytes"),
)
DYN, ANY, NULL, ERROR = Type("dyn"), Type("any"), Type("null"), Type("error", "!error!")
TIMESTAMP, DURATION, TYPE = Type("timestamp"), Type("duration"), Type("type")


def list_of(element: Type, *, max_size: int | None = None) -> Type:
    return Type("list", parameters=(element,), max_size=max_size)


def map_of(key: Type, value: Type, *, max_size: int | None = None) -> Type:
    return Type("map", parameters=(key, value), max_size=max_size)


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def opaque(name: str) -> Type:
    return Type("opaque", name)


def parameter(name: str) -> Type:
    return Type("parameter", name)


def type_of(value: Type) -> Type:
    return Type("type", parameters=(value,))


def nullable(value: Type) -> Type:
    """Return a wrapper type: the value or null."""
    return Type("wrapper", parameters=(value,))


def limit_size(value: Type, max_size: int) -> Type:
    """Return the type with a bound on the size of its values."""
    if isinstance(value, ObjectType):
        return ObjectType(value.name, value.fields, max_size=max_size)
    return Type(value.kind, value.name, value.parameters, max_size=max_size)


TYPE_NAMES: Final[Mapping[str, tuple[Type, TypeValue]]] = {
    name: (value, TypeValue(name))
    for name, value in {
        **{type_.name: type_ for type_ in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TYPE, DYN)},
        "null_type": NULL,
        "list": list_of(DYN),
        "map": map_of(DYN, DYN),
        "google.protobuf.Timestamp": TIMESTAMP,
        "google.protobuf.Duration": DURATION,
        "optional_type": optional_of(DYN),
    }.items()
}
"""The types that expressions can name as values."""


class Substitution:
    """Bindings of type parameters while the arguments of a call are matched. A parameter is bound once; the bindings of
    a failed attempt are undone."""

    __slots__ = ("_bound", "_order")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._order: list[str] = []

    def mark(self) -> int:
        """Return the current number of bindings, to which `undo` can return."""
        return len(self._order)

    def undo(self, mark: int) -> dict[str, Type]:
        """Remove the bindings of type parameters since the call of `mark`, and return them for `restore`."""
        names = self._order[mark:]
        del self._order[mark:]
        return {name: self._bound.pop(name) for name in names}

    def restore(self, bindings: Mapping[str, Type]) -> None:
        self._bound.update(bindings)
        self._order.extend(bindings)

    def find(self, type_: Type) -> Type:
        while type_.kind == "parameter" and type_.name in self._bound:
            type_ = self._bound[type_.name]
        return type_

    def resolve(self, type_: Type, *, frees_parameters: bool = False) -> Type:
        """Return the type with its parameters replaced by their bindings; with `frees_parameters` unbound ones become
        `dyn`."""
        type_ = self.find(type_)
        if type_.kind == "parameter":
            return DYN if frees_parameters else type_
        if not type_.parameters:
            return type_
        inner = tuple(self.resolve(part, frees_parameters=frees_parameters) for part in type_.parameters)
        return Type(type_.kind, type_.name, inner, max_size=type_.max_size)

    def assign(self, target: Type, value: Type) -> bool:
        """Whether a value of one type can be used where the other is declared; binds parameters."""
        target, value = self.find(target), self.find(value)
        if target.kind == "parameter" and value.kind == "parameter" and target.name == value.name:
            return True
        if value.kind == "parameter":
            return self._bind(value, target)
        if target.kind == "parameter":
            return self._bind(target, value)
        if target.is_dyn or value.is_dyn:
            return True
        if value.kind == "null":
            return target.kind in ("null", "wrapper", "object", "opaque", "timestamp", "duration")
        if target.kind == "wrapper":
            inner = value.parameters[0] if value.kind == "wrapper" else value
            return self.assign(target.parameters[0], inner)
        if value.kind == "wrapper":
            return self.assign(target, value.parameters[0])
        if target.kind != value.kind or target.name != value.name:
            return False
        if target.kind == "type":
            return True
        if len(target.parameters) != len(value.parameters):
            return False
        return all(
            self.assign(expected, argument)
            for expected, argument in zip(target.parameters, value.parameters, strict=True)
        )

    def _bind(self, name: Type, value: Type) -> bool:
        if self._occurs(name, value):
            return False
        self._bound[name.name] = value
        self._order.append(name.name)
        return True

    def _occurs(self, name: Type, within: Type) -> bool:
        within = self.find(within)
        if within.kind == "parameter":
            return within.name == name.name
        return any(self._occurs(name, inner) for inner in within.parameters)


def most_general(type_: Type, other: Type) -> Type:
    """Return the more general of two types that are assignable to each other."""
    if type_.is_dyn:
        return type_
    if other.is_dyn or other.kind == "wrapper":
        return other
    if type_.kind == "null":
        return other
    if type_.parameters and type_.kind == other.kind and len(type_.parameters) == len(other.parameters):
        inner = [most_general(*pair) for pair in zip(type_.parameters, other.parameters, strict=True)]
        return Type(type_.kind, type_.name, inner)
    return type_


def literal_type(value: Any) -> Type:
    from sampan.machinery.cel.runtime.values import Uint

    kinds: dict[type, Type] = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES}
    return kinds.get(type(value), NULL)
