"""The types of variables: expressions are checked against them before they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class ListOf:
    element: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """By text."""

    value: Shape


@dataclass(frozen=True, slots=True)
class ObjectOf:
    name: str
    """Qualified: `kubernetes.UserInfo`."""
    fields: Mapping[str, Shape] = field(default_factory=dict)


Scalar = Literal["string", "bool", "int", "double", "dyn"]
Shape: TypeAlias = "Scalar | ListOf | MapOf | ObjectOf"


def load() -> None:
    """What `checked_types` needs: that takes a while at the first time."""
    from google.protobuf import descriptor_pool, struct_pb2  # type: ignore[import-untyped]  # noqa: F401


def checked_types(variables: Mapping[str, Shape]) -> tuple[Any, dict[str, Any]]:
    """A pool with the objects among the variables' types, and each variable's type, as the library wants them."""
    from cel_expr_python import cel
    from google.protobuf import descriptor_pool, struct_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for shape in {one.name: one for each in variables.values() for one in _objects(each)}.values():
        pool.AddSerializedFile(_file(shape))
    return pool, {name: _type(shape, cel.Type) for name, shape in variables.items()}


def _objects(shape: Shape) -> Iterator[ObjectOf]:
    """Inner ones first: a file is added after those it needs."""
    if isinstance(shape, ListOf):
        yield from _objects(shape.element)
    elif isinstance(shape, MapOf):
        yield from _objects(shape.value)
    elif isinstance(shape, ObjectOf):
        for inner in shape.fields.values():
            yield from _objects(inner)
        yield shape


def _type(shape: Shape, types: Any) -> Any:
    if isinstance(shape, ListOf):
        return types.List(_type(shape.element, types))
    if isinstance(shape, MapOf):
        return types.Map(types.STRING, _type(shape.value, types))
    return types(shape.name) if isinstance(shape, ObjectOf) else getattr(types, shape.upper())


def _file(shape: ObjectOf) -> bytes:
    from google.protobuf import descriptor_pb2

    package, _, name = shape.name.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(name=_path(shape), package=package, syntax="proto3")
    needed = {_path(one) for field in shape.fields.values() for one in _objects(field)}
    file.dependency.extend(["google/protobuf/struct.proto", *sorted(needed)])
    message = file.message_type.add(name=name)
    for number, (field_name, inner) in enumerate(shape.fields.items(), 1):
        _add_field(message, shape.name, field_name, number, inner)
    return bytes(file.SerializeToString())


def _path(shape: ObjectOf) -> str:
    return f"{shape.name}.proto"


def _add_field(message: Any, owner: str, name: str, number: int, shape: Shape) -> None:
    if isinstance(shape, MapOf):
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, **_form("string"))
        entry.field.add(name="value", number=2, label=1, **_form(shape.value))
        message.field.add(name=name, number=number, label=3, type=11, type_name=f".{owner}.{entry.name}")
        return
    is_list = isinstance(shape, ListOf)
    element = shape.element if isinstance(shape, ListOf) else shape
    message.field.add(name=name, number=number, label=3 if is_list else 1, **_form(element))


def _form(shape: Shape) -> dict[str, Any]:
    """A list within a map or a list is one of anything: messages know no better."""
    if isinstance(shape, ObjectOf):
        return {"type": 11, "type_name": f".{shape.name}"}
    if isinstance(shape, ListOf):
        return {"type": 11, "type_name": ".google.protobuf.ListValue"}
    if isinstance(shape, MapOf):
        return {"type": 11, "type_name": ".google.protobuf.Struct"}
    numbers = {"double": 1, "int": 3, "bool": 8, "string": 9}
    return {"type": numbers[shape]} if shape in numbers else {"type": 11, "type_name": ".google.protobuf.Value"}


__all__ = ["ListOf", "MapOf", "ObjectOf", "Shape", "checked_types", "load"]
