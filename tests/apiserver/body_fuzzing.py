"""Shared code of the fuzz tests of request bodies: the kinds of the objects, and the allowed outcomes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from sampan.api import limits
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema import schemas
from sampan.api.schema.tree import from_openapi
from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.request import bodies, server_side_apply
from sampan.apiserver.request.call import Call, Query
from sampan.machinery import errors
from tests import input_cost
from tests.input_cost import MOST_CPU_S, MOST_MEMORY, min_cpu_s

MOST_BYTES: Final = 100_000

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WIDGET = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
        "status": _ANYTHING,
    },
}
CODECS: Final = (
    ResourceCodec(
        kind=GroupVersionKind(group="", version="v1", kind="ConfigMap"),
        type=ConfigMap,
        schema=schemas.schema_of(ConfigMap),
    ),
    ResourceCodec(kind=GroupVersionKind(group="", version="v1", kind="Pod"), type=Pod, schema=schemas.schema_of(Pod)),
    ResourceCodec(
        kind=GroupVersionKind(group="example.com", version="v1", kind="Widget"), type=None, schema=from_openapi(_WIDGET)
    ),
)


def read(body: bytes, media: str, validation: str = "Warn") -> None:
    """Read a body as every kind, as an applied object and as delete options. Only API errors may be raised."""
    for codec in CODECS:
        call = _call(body, media)
        _check_outcome(partial(bodies.read_object, call, codec, validation))
        assert sum(map(len, call.warnings)) <= limits.WARNINGS_LENGTH + limits.STRICT_ERRORS * limits.WARNING_LENGTH
    if media != PROTOBUF:
        _check_outcome(partial(server_side_apply.read, body))
    _check_outcome(partial(bodies.read_delete_options, _call(body, media)))


def _call(body: bytes, media: str) -> Call:
    return Call(method="POST", path="/", query=Query(""), headers={"Content-Type": media}, body=body)


def _check_outcome(work: Callable[[], object]) -> None:
    code = 200
    try:
        work()
    except errors.ApiError as error:
        code = error.code
    assert code in (200, 400, 413, 422)


class _RecordingCodec(ResourceCodec):
    """A codec that keeps the last JSON that it parsed: the body, or what YAML or protobuf was converted to."""

    body: bytes | None = None

    def parse(self, body: bytes) -> tuple[Any, list[str]]:
        self.body = body
        return super().parse(body)


def longest_cpu_s(body: bytes, media: str) -> float:
    """Return the CPU time of reading a body as the slowest kind. The conversion to JSON, in which the kinds do not
    differ and which costs nearly all of the time, is done once."""
    first, *others = CODECS
    recorder = _RecordingCodec(kind=first.kind, type=first.type, schema=first.schema)
    whole_s = min_cpu_s(partial(_read_as, recorder, body, media))
    if recorder.body is None:
        return whole_s  # rejected before the kind matters
    return whole_s + max(min_cpu_s(partial(_read_as, codec, recorder.body, JSON)) for codec in others)


def peak_memory(body: bytes, media: str) -> int:
    """Return the peak memory of reading a body as a pod."""
    return input_cost.peak_memory(partial(_read_as, CODECS[1], body, media))


def _read_as(codec: ResourceCodec, body: bytes, media: str) -> None:
    _check_outcome(partial(bodies.read_object, _call(body, media), codec, "Warn"))


__all__ = [
    "JSON",
    "MOST_BYTES",
    "MOST_CPU_S",
    "MOST_MEMORY",
    "PROTOBUF",
    "YAML",
    "longest_cpu_s",
    "peak_memory",
    "read",
]
