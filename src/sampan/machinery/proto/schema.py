"""Message classes and method paths of a .proto file."""

from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from sampan.machinery.proto.parser import parse

Message = Any
"""A class or an instance created at run time, whose fields a type checker cannot see."""


class Method(NamedTuple):
    path: str
    request: Message
    response: Message


class Schema:
    """`schema.RangeRequest` is a message class; `schema.method("KV", "Range")` has what a call needs."""

    def __init__(self, text: str, *, name: str) -> None:
        pool = DescriptorPool()
        pool.AddSerializedFile(parse(text, name=name).SerializeToString())
        self._file = pool.FindFileByName(name)
        self._classes = {key: GetMessageClass(value) for key, value in self._file.message_types_by_name.items()}

    @classmethod
    def read(cls, file: Path) -> "Schema":
        return cls(file.read_text(), name=file.name)

    def __getattr__(self, name: str) -> Message:
        try:
            return self._classes[name]
        except KeyError:
            raise AttributeError(f"no message {name} in {self._file.name}") from None

    def method(self, service: str, name: str) -> Method:
        descriptor = self._file.services_by_name[service].methods_by_name[name]
        request, response = self._classes[descriptor.input_type.name], self._classes[descriptor.output_type.name]
        return Method(f"/{descriptor.containing_service.full_name}/{name}", request, response)
