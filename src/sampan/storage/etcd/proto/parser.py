"""Reads the part of the proto3 language that `etcd.proto` is written in: one package, services, messages with scalar,
message, enum and repeated fields, oneofs, enums inside messages. Anything else is an error that names it.
"""

import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_COMMENT = re.compile(r"//[^\n]*")
_TOKEN = re.compile(r'"[^"]*"|[\w.]+|\S')
_SCALARS = ("bool", "bytes", "int64", "string")


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
                case _:
                    raise ValueError(f"{self._file.name}: cannot read {token!r}")
        self._resolve()
        return self._file

    def _next(self) -> str:
        token = next(self._tokens, None)
        if token is None:
            raise ValueError(f"{self._file.name}: ends too early")
        return token

    def _take(self, count: int) -> list[str]:
        return [self._next() for _ in range(count)]

    def _block(self) -> Iterator[str]:
        """The first words of what is inside braces that have been opened."""
        return iter(self._next, "}")

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
                case "repeated":
                    self._field(message, self._next()).label = FieldDescriptorProto.LABEL_REPEATED
                case _:
                    self._field(message, token)

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        name, _ = self._take(2)
        message.oneof_decl.add(name=name)
        for token in self._block():
            self._field(message, token).oneof_index = index

    def _enum(self, message: DescriptorProto) -> None:
        enum = message.enum_type.add()
        enum.name, _ = self._take(2)
        for name in self._block():
            _, number, _ = self._take(3)
            enum.value.add(name=name, number=int(number))

    def _field(self, message: DescriptorProto, type_name: str) -> FieldDescriptorProto:
        name, equals, number, end = self._take(4)
        if (equals, end) != ("=", ";"):
            raise ValueError(f"{self._file.name}: cannot read {message.name}.{name}")
        field = message.field.add(name=name, number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
        if type_name in _SCALARS:
            field.type = getattr(FieldDescriptorProto, f"TYPE_{type_name.upper()}")
        else:
            field.type_name = type_name
        return field

    def _resolve(self) -> None:
        """Types may be used before they are declared, so which names are enums is known only at the end."""
        known = {message.name for message in self._file.message_type}
        for message in self._file.message_type:
            enums = {enum.name for enum in message.enum_type}
            for field in message.field:
                if field.type_name in enums:
                    field.type, scope = FieldDescriptorProto.TYPE_ENUM, f"{message.name}."
                elif field.type_name in known:
                    field.type, scope = FieldDescriptorProto.TYPE_MESSAGE, ""
                elif field.type_name:
                    raise ValueError(
                        f"{self._file.name}: unknown type {field.type_name} of {message.name}.{field.name}"
                    )
                else:
                    continue
                field.type_name = f".{self._file.package}.{scope}{field.type_name}"
