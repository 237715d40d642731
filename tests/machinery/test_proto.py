"""The parser of .proto files produces the same descriptors as protoc."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]

from sampan.machinery.proto import ProtoSchema, parse

EVERYTHING = """
syntax = "proto3";
package all.v1;
enum State { READY = 0; GONE = 1; }
service S { rpc Get(A) returns (B); rpc Watch(A) returns (stream B); }
message A {
  map<string, string> labels_of_it = 1;  // pairs
  map<string, B> parts = 2;
  State state = 3;
  repeated B more = 4;
  oneof either { uint32 small = 5; B large = 6; }
  enum Own { NONE = 0; }
  Own own = 7;
}
message B { double d = 1; int32 i = 2; uint64 u = 3; bytes raw = 4; bool yes = 5; }
"""


def test_the_parser_agrees_with_protoc(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    (tmp_path / "all.proto").write_text(EVERYTHING)
    out = tmp_path / "out"
    assert protoc.main(["protoc", f"-I{tmp_path}", f"--descriptor_set_out={out}", "all.proto"]) == 0
    [file] = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in (*file.message_type, *file.message_type[0].nested_type):
        for field in message.field:
            field.ClearField("json_name")
    assert parse(EVERYTHING, name="all.proto") == file


def test_maps_survive_serialization() -> None:
    schema = ProtoSchema(EVERYTHING, name="all.proto")
    message = schema.A(labels_of_it={"a": "b"}, parts={"x": schema.B(i=3)}, state=1)
    read = schema.A.FromString(message.SerializeToString())
    assert (dict(read.labels_of_it), read.parts["x"].i, read.state) == ({"a": "b"}, 3, 1)
    assert schema.method("S", "Get").path == "/all.v1.S/Get"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import 'other.proto';", "import"),
        ("message A { map<string, B> m = 1; }", "unknown type B of A.value"),
        ("message A { message B { } }", "cannot read A"),
        ("message A { B b = 1; }", "unknown type B of A.b"),
        ("message A { int64 a; }", "unexpected end of file"),
        ("message A { int64 a 1; } message", "cannot read A.a"),
        ("service S { option x = 1; }", "option"),
    ],
)
def test_unsupported_syntax_is_named_in_the_error(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse(text, name="x.proto")
