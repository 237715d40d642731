"""Messages of gRPC services, created from .proto files on first use.

There is no generated code. Generated modules reject a protobuf runtime older than the compiler that generated them, and
an installed Sampan has to use whatever protobuf version other packages need. Message classes created from a descriptor
work with all versions, run in the same C code, and leave the .proto file as the only definition of the protocol.
Parsing a .proto file takes a few milliseconds (tests compare the result with protoc's). The classes are in a descriptor
pool of their own, so that another client of the same service in the process does not clash.

The parser knows the subset of proto3 that Sampan's .proto files use: one package, services, messages with scalar,
message, enum, repeated and map fields, oneofs, top-level and nested enums. Any other syntax is an error that names it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

Message = Any
"""A class or an instance created at run time, whose fields a type checker cannot see."""


class RpcMethod(NamedTuple):
    path: str
    request: Message
    response: Message


class ProtoSchema:
    """The message classes and methods of a .proto file: `schema.RangeRequest` is a message class, and
    `schema.method("KV", "Range")` has the path and the message classes of a call."""

    def __init__(self, text: str, *, name: str) -> None:
        pool = DescriptorPool()
        pool.AddSerializedFile(parse(text, name=name).SerializeToString())
        self._file = pool.FindFileByName(name)
        self._classes = {key: GetMessageClass(value) for key, value in self._file.message_types_by_name.items()}

    @classmethod
    def read(cls, file: Path) -> "ProtoSchema":
        return cls(file.read_text(), name=file.name)

    def __getattr__(self, name: str) -> Message:
        try:
            return self._classes[name]
        except KeyError:
            raise AttributeError(f"no message {name} in {self._file.name}") from None

    def method(self, service: str, name: str) -> RpcMethod:
        descriptor = self._file.services_by_name[service].methods_by_name[name]
        request, response = self._classes[descriptor.input_type.name], self._classes[descriptor.output_type.name]
        return RpcMethod(f"/{descriptor.containing_service.full_name}/{name}", request, response)


_COMMENT = re.compile(r"//[^\n]*")
_TOKEN = re.compile(r'"[^"]*"|[\w.]+|\S')
_SCALARS = ("bool", "bytes", "double", "int32", "int64", "string", "uint32", "uint64")


def parse(text: str, *, name: str) -> FileDescriptorProto:
    return _Parser(text, FileDescriptorProto(name=name)).file()


class _Parser:
    def __init__(self, text: str, file: FileDescriptorProto) -> None:
        self._tokens: Iterator[str] = iter(_TOKEN.findall(_COMMENT.sub("", text)))
        self._file = file

    def file(self) -> FileDescriptorProto:
        for token in self._tokens:
            match token:
                case "syntax":
                    _, syntax, _ = self._take(3)
                    self._file.syntax = syntax.strip('"')
                case "package":
                    self._file.package, _ = self._take(2)
                case "service":
                    self._service()
                case "message":
                    self._message()
                case "enum":
                    self._enum(self._file)
                case _:
                    raise ValueError(f"{self._file.name}: cannot read {token!r}")
        self._resolve()
        return self._file

    def _take_token(self) -> str:
        token = next(self._tokens, None)
        if token is None:
            raise ValueError(f"{self._file.name}: unexpected end of file")
        return token

    def _take(self, count: int) -> list[str]:
        return [self._take_token() for _ in range(count)]

    def _block(self) -> Iterator[str]:
        """Return the first tokens of the statements inside an open block."""
        return iter(self._take_token, "}")

    def _service(self) -> None:
        service = self._file.service.add()
        service.name, _ = self._take(2)
        for token in self._block():
            if token != "rpc":
                raise ValueError(f"{self._file.name}: cannot read {token!r} in service {service.name}")
            method = service.method.add()
            (method.name,) = self._take(1)
            method.input_type, streams = self._parameter()
            if streams:
                method.client_streaming = True
            self._take(1)
            method.output_type, streams = self._parameter()
            if streams:
                method.server_streaming = True
            self._take(1)

    def _parameter(self) -> tuple[str, bool]:
        _, word = self._take(2)
        streams = word == "stream"
        if streams:
            (word,) = self._take(1)
        self._take(1)
        return f".{self._file.package}.{word}", streams

    def _message(self) -> None:
        message = self._file.message_type.add()
        message.name, _ = self._take(2)
        for token in self._block():
            match token:
                case "enum":
                    self._enum(message)
                case "oneof":
                    self._oneof(message)
                case "map":
                    self._map(message)
                case "repeated":
                    self._field(message, self._take_token()).label = FieldDescriptorProto.LABEL_REPEATED
                case _:
                    self._field(message, token)

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        name, _ = self._take(2)
        message.oneof_decl.add(name=name)
        for token in self._block():
            self._field(message, token).oneof_index = index

    def _map(self, message: DescriptorProto) -> None:
        """Parse a map field, which is a repeated pair on the wire."""
        _, key, _, value, _ = self._take(5)
        field = self._field(message, "")
        pair = message.nested_type.add(name=f"{_to_camel_case(field.name)}Entry")
        pair.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", key), ("value", value)), start=1):
            self._add_field(pair, name, number, type_name)
        field.label = FieldDescriptorProto.LABEL_REPEATED
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{self._file.package}.{message.name}.{pair.name}"

    def _enum(self, owner: DescriptorProto | FileDescriptorProto) -> None:
        enum = owner.enum_type.add()
        enum.name, _ = self._take(2)
        for name in self._block():
            _, number, _ = self._take(3)
            enum.value.add(name=name, number=int(number))

    def _field(self, message: DescriptorProto, type_name: str) -> FieldDescriptorProto:
        name, equals, number, end = self._take(4)
        if (equals, end) != ("=", ";"):
            raise ValueError(f"{self._file.name}: cannot read {message.name}.{name}")
        return self._add_field(message, name, int(number), type_name)

    def _add_field(self, message: DescriptorProto, name: str, number: int, type_name: str) -> FieldDescriptorProto:
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if type_name in _SCALARS:
            field.type = getattr(FieldDescriptorProto, f"TYPE_{type_name.upper()}")
        else:
            field.type_name = type_name
        return field

    def _resolve(self) -> None:
        """Resolve type names at the end, because types may be used before they are declared."""
        for message in self._file.message_type:
            own = {enum.name for enum in message.enum_type}
            for field in (*message.field, *(field for pair in message.nested_type for field in pair.field)):
                if field.type_name and not field.type_name.startswith("."):
                    self._resolve_field(message, field, own)

    def _resolve_field(self, message: DescriptorProto, field: FieldDescriptorProto, own: set[str]) -> None:
        scope = ""
        if field.type_name in own:
            field.type, scope = FieldDescriptorProto.TYPE_ENUM, f"{message.name}."
        elif any(field.type_name == enum.name for enum in self._file.enum_type):
            field.type = FieldDescriptorProto.TYPE_ENUM
        elif any(field.type_name == other.name for other in self._file.message_type):
            field.type = FieldDescriptorProto.TYPE_MESSAGE
        else:
            raise ValueError(f"{self._file.name}: unknown type {field.type_name} of {message.name}.{field.name}")
        field.type_name = f".{self._file.package}.{scope}{field.type_name}"


def _to_camel_case(name: str) -> str:
    """Return the name of a field in camel case, as protoc writes it in the name of the pair type of a map field."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
