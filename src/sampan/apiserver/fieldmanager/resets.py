"""Whether a client asks that nobody shall own anything any more: with an empty list of managers, which is not the same
as none. Typed objects cannot tell, so that what was sent is looked at."""

from typing import Any

from sampan.api.codec import json as json_codec
from sampan.apiserver.bodies import media_type
from sampan.apiserver.call import Call
from sampan.apiserver.negotiation import JSON, YAML

_FIELD = b"managedFields"


def in_value(value: Any) -> bool:
    meta = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(meta, dict) and meta.get("managedFields") == []


def in_body(call: Call) -> bool:
    """Of a body that was read as an object already. Protobuf has no empty lists."""
    if _FIELD not in call.body:
        return False
    media = media_type(call)
    if media == JSON:
        return in_value(json_codec.read_any(call.body))
    if media != YAML:
        return False
    from sampan.api.codec import yaml

    return in_value(yaml.decode(call.body)[0])


__all__ = ["in_body", "in_value"]
