"""Wire messages of gRPC services, made from .proto files when they are first needed.

There is no generated code. Generated modules refuse a protobuf runtime older than the compiler that made them, and an
installed Sampan meets whatever protobuf its neighbours need; message classes made from a descriptor work with all of
them, run in the same C code, and leave the .proto file as the only statement of what is spoken. Reading one takes a few
milliseconds (tests compare the outcome with protoc's). Classes live in a pool of their own, so that another client of
the same service in the process does not clash.
"""

from sampan.machinery.proto.schema import Message, Method, Schema

__all__ = ["Message", "Method", "Schema"]
