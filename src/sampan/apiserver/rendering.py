"""Answers as bytes, in the form that the client asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.api.codec import json as json_codec
from sampan.apiserver.call import Call
from sampan.apiserver.negotiation import JSON, YAML, Form
from sampan.apiserver.results import BytesAnswer, ListAnswer, ObjectAnswer, ValueAnswer

_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


@dataclass(frozen=True, slots=True)
class Rendered:
    code: int
    content_type: str
    chunks: Iterable[bytes]
    """The body in pieces; one piece is the common case."""
    headers: dict[str, str] = field(default_factory=dict)


def render(answer: ObjectAnswer | ListAnswer | ValueAnswer | BytesAnswer, form: Form, call: Call) -> Rendered:
    if isinstance(answer, BytesAnswer):
        return Rendered(answer.code, answer.content_type, (answer.body,), answer.headers)
    if isinstance(answer, ListAnswer):
        return _list(answer, form, call)
    if isinstance(answer, ObjectAnswer):
        return Rendered(answer.code, form.media, (encode(answer.raw, form, call),))
    return Rendered(answer.code, form.media, (encode(json_codec.encode(answer.value), form, call),))


def _list(answer: ListAnswer, form: Form, call: Call) -> Rendered:
    if form.media == JSON and not is_pretty(call):
        return Rendered(200, JSON, answer.result.chunks())
    return Rendered(200, form.media, (encode(answer.result.raw(), form, call),))


def encode(raw: bytes, form: Form, call: Call) -> bytes:
    """JSON bytes in the form's media type."""
    if form.media == JSON:
        return msgspec.json.format(raw, indent=2) if is_pretty(call) else raw
    value: Any = json_codec.read_any(raw)
    if form.media == YAML:
        from sampan.api.codec import yaml as yaml_codec

        return yaml_codec.encode(value)
    from sampan.api.codec import protobuf as protobuf_codec

    return protobuf_codec.encode(value)


def is_pretty(call: Call) -> bool:
    """As the real server: when asked for, and for people at a terminal or browser who did not say no."""
    if "pretty" in call.query:
        return call.query.flag("pretty")
    return call.user_agent.startswith(_PRETTY_AGENTS)


__all__ = ["Rendered", "encode", "is_pretty", "render"]
