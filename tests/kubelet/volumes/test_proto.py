"""The .proto files of plug-ins are read as protoc reads them."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]

import sampan.kubelet
from sampan.kubelet.volumes.csi.client import csi
from sampan.machinery.proto.parser import parse

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


def test_bytes_on_the_wire() -> None:
    """By hand from the published field numbers of CSI."""
    schema = csi()
    capability = schema.VolumeCapability(mount=schema.MountVolume(fs_type="x"), access_mode=schema.AccessMode(mode=1))
    request = schema.NodePublishVolumeRequest(
        volume_id="v", target_path="/t", volume_capability=capability, readonly=True, secrets={"k": "s"}
    )
    inner = b"\x12\x03\x0a\x01x" + b"\x1a\x02\x08\x01"
    expected = b"\x0a\x01v" + b"\x22\x02/t" + b"\x2a" + bytes([len(inner)]) + inner + b"\x30\x01"
    expected += b"\x3a\x06\x0a\x01k\x12\x01s"
    assert request.SerializeToString() == expected
