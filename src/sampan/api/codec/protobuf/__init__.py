"""`application/vnd.kubernetes.protobuf`: built-in kinds between protobuf bytes and plain JSON values.

Driven by a generated table of fields (`sampan/api/data/protobuf.json`), loaded on first use; there are no generated
classes. A decoded object equals what `json.loads` gives for the real server's JSON of the same object. Anything that is
not a message of its kind raises `ProtobufError`, and so does an object that the kind's message cannot hold.
"""

from sampan.api.codec.protobuf.envelope import (
    Unframer,
    decode,
    decode_event,
    encode,
    encode_body,
    encode_event,
    frame,
    frame_bytes,
    join_list,
    supports,
    unframe,
    unwrap,
    wrap,
)
from sampan.api.codec.protobuf.table import UnknownKindError
from sampan.api.codec.protobuf.wire import ProtobufError

__all__ = [
    "ProtobufError",
    "Unframer",
    "UnknownKindError",
    "decode",
    "decode_event",
    "encode",
    "encode_body",
    "encode_event",
    "frame",
    "frame_bytes",
    "join_list",
    "supports",
    "unframe",
    "unwrap",
    "wrap",
]
