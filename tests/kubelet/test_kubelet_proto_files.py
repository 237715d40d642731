"""The .proto files of device plugins, DRA and CSI drivers are read as protoc reads them."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]

import sampan.kubelet
from sampan.machinery.proto import parse

DIRECTORY = Path(sampan.kubelet.__file__).parent
FILES = sorted(path.relative_to(DIRECTORY).as_posix() for path in DIRECTORY.rglob("*.proto"))


@pytest.mark.parametrize("name", FILES)
def test_the_parser_agrees_with_protoc(tmp_path: Path, name: str) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    out = tmp_path / "out"
    assert protoc.main(["protoc", f"-I{DIRECTORY}", f"--descriptor_set_out={out}", name]) == 0
    [file] = FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for part in (message, *message.nested_type):
            for field in part.field:
                field.ClearField("json_name")
    assert parse((DIRECTORY / name).read_text(), name=name) == file
