"""Messages that are built from etcd.proto at run time equal those that protoc generates."""

import importlib.resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]

from sampan.machinery.proto import parse
from sampan.storage.etcd.proto import load

PROTO = Path(str(importlib.resources.files("sampan.storage.etcd.proto") / "etcd.proto"))


def test_the_parser_agrees_with_protoc(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    out = tmp_path / "out"
    assert protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", PROTO.name]) == 0
    [file] = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert parse(PROTO.read_text(), name=PROTO.name) == file


def test_wire_encoding_of_a_transaction() -> None:
    """Expected bytes, encoded by hand: compare the mod revision of "k" with 7, then put "v" with lease 9."""
    pb = load()
    request = pb.TxnRequest(
        compare=[pb.Compare(target=pb.Compare.MOD, key=b"k", mod_revision=7)],
        success=[pb.RequestOp(request_put=pb.PutRequest(key=b"k", value=b"v", lease=9))],
    )
    compare = bytes([0x10, 2, 0x1A, 1, ord("k"), 0x30, 7])
    put = bytes([0x0A, 1, ord("k"), 0x12, 1, ord("v"), 0x18, 9])
    op = bytes([0x12, len(put)]) + put
    expected = bytes([0x0A, len(compare)]) + compare + bytes([0x12, len(op)]) + op
    assert request.SerializeToString() == expected


def test_an_unknown_message_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no message Nothing"):
        load().Nothing  # noqa: B018


def test_method_paths() -> None:
    assert load().method("Maintenance", "Status").path == "/etcdserverpb.Maintenance/Status"
