"""Stored data of CSI volumes, fsGroup policies, and messages on the wire."""

from pathlib import Path

import pytest

from sampan.api.codec import json
from sampan.api.types.storage_v1 import CSIDriver
from sampan.kubelet.volumes.contract import VolumeSpec
from sampan.kubelet.volumes.csi.client import csi
from sampan.kubelet.volumes.csi.conversions import applies_fs_group
from sampan.kubelet.volumes.csi.plugin import load
from tests.kubelet.volumes.pods import pod


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "{}", '{"driverName": "d"}', "\xff"])
def test_volume_data_that_cannot_be_read_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "vol_data.json").write_text(text, "latin-1")
    assert load(tmp_path / "vol_data.json") is None
    assert load(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("policy", "fs_type", "is_read_only", "applies"),
    [
        ("File", "", False, True),
        ("None", "ext4", False, False),
        (None, "ext4", False, True),
        (None, "", False, False),
        (None, "ext4", True, False),
    ],
)
def test_the_fs_group_policy_of_the_driver_applies(
    policy: str | None, fs_type: str, is_read_only: bool, applies: bool
) -> None:
    pod_with_volume = pod(
        {}, securityContext={"fsGroup": 1}, volumes=[{"name": "v", "csi": {"driver": "d", "fsType": fs_type}}]
    )
    info = json.from_value({"spec": {"fsGroupPolicy": policy}}, CSIDriver) if policy else None
    assert (
        applies_fs_group(VolumeSpec(pod=pod_with_volume, volume=pod_with_volume.spec.volumes[0]), info, is_read_only)
        is applies
    )


def test_a_request_has_the_published_field_numbers() -> None:
    """The expected bytes are written by hand from the field numbers of the CSI specification."""
    schema = csi()
    capability = schema.VolumeCapability(mount=schema.MountVolume(fs_type="x"), access_mode=schema.AccessMode(mode=1))
    request = schema.NodePublishVolumeRequest(
        volume_id="v", target_path="/t", volume_capability=capability, readonly=True, secrets={"k": "s"}
    )
    inner = b"\x12\x03\x0a\x01x" + b"\x1a\x02\x08\x01"
    expected = b"\x0a\x01v" + b"\x22\x02/t" + b"\x2a" + bytes([len(inner)]) + inner + b"\x30\x01"
    expected += b"\x3a\x06\x0a\x01k\x12\x01s"
    assert request.SerializeToString() == expected
