"""YAML that a person sends to the dashboard or reads there, converted beside the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from sampan.api.codec import yaml as yaml_codec
from sampan.api.codec.errors import DecodeError

_INLINE_BYTES = 4 << 10


async def from_yaml(text: str) -> Any:
    """Return the value of the first document. Raise ValueError for invalid YAML, and for more aliases, merge keys or
    nesting than the API server allows."""
    source = text.encode("utf-8", "replace")
    try:
        if len(source) > _INLINE_BYTES:
            return (await asyncio.to_thread(yaml_codec.decode, source)).value
        return yaml_codec.decode(source).value
    except DecodeError as error:
        raise ValueError(str(error)) from None


async def to_yaml(value: Any) -> str:
    return (await asyncio.to_thread(yaml_codec.encode, value)).decode()
