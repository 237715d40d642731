"""Whether a client asks to reset all managed fields, with an empty list of managedFields, which differs from an absent
one. Typed objects cannot distinguish them, so the original body is examined."""

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
    """Whether the body of a request asks for a reset. The body has been decoded before; protobuf has no empty lists."""
    if _FIELD not in call.body:
        return False
    media = media_type(call)
    if media == JSON:
        return in_value(json_codec.read_any(call.body))
    if media != YAML:
        return False
    from sampan.api.codec import yaml

    return in_value(yaml.decode(call.body)[0])
