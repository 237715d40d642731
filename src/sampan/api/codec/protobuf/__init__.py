"""`application/vnd.kubernetes.protobuf`: built-in kinds between protobuf bytes and plain JSON values, as in
`apimachinery/pkg/runtime/serializer/protobuf`.

It is driven by a generated table of fields (`sampan/api/data/protobuf.json`), loaded on first use; there are no
generated classes. A decoded object equals `json.loads` of kube-apiserver's JSON for the same object, except that raw
JSON (RawExtension) keeps its bytes, as `msgspec.Raw`. `ProtobufError` is raised for bytes that are not a message of the
kind, and for an object that the message cannot represent.
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
    read_json,
    supports,
    unframe,
    unwrap,
    wrap,
)
from sampan.api.codec.protobuf.field_table import UnknownKindError
from sampan.api.codec.protobuf.wire import PREFIX, ProtobufError

__all__ = [
    "PREFIX",
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
    "read_json",
    "supports",
    "unframe",
    "unwrap",
    "wrap",
]
