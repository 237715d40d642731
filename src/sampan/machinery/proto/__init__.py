"""Messages of gRPC services, created from .proto files on first use.

There is no generated code. Generated modules reject a protobuf runtime older than the compiler that generated them, and
an installed Sampan has to use whatever protobuf version other packages need; message classes created from a descriptor
work with all of them, run in the same C code, and leave the .proto file as the only definition of the protocol. Parsing
one takes a few milliseconds (tests compare the result with protoc's). The classes are in a descriptor pool of their
own, so that another client of the same service in the process does not clash.
"""

from sampan.machinery.proto.parser import Message, Method, ProtoSchema

__all__ = ["Message", "Method", "ProtoSchema"]
