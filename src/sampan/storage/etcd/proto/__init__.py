"""etcd's wire messages, made from `etcd.proto` when they are first needed.

There is no generated code. Generated modules refuse a protobuf runtime older than the compiler that made them, and an
installed Sampan meets whatever protobuf its neighbours need; message classes made from a descriptor work with all of
them, run in the same C code, and leave `etcd.proto` as the only statement of what is spoken. Reading it takes about two
milliseconds (a test compares the outcome with protoc's). Classes live in a pool of their own, so that another etcd
client in the process does not clash.
"""

from sampan.storage.etcd.proto.schema import Method, Schema, load

__all__ = ["Method", "Schema", "load"]
