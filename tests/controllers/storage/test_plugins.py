"""The plug-in of host paths: off unless it is enabled, and a directory for each claim otherwise."""

import os
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.storage.plugins import HostPath, VolumeError, VolumeOptions


def options(mode: str = "Filesystem") -> VolumeOptions:
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="default", uid="u-1"),
        spec=PersistentVolumeClaimSpec(volumeMode=mode),
    )
    storage_class = StorageClass(metadata=ObjectMeta(name="host"), provisioner=HostPath.name)
    return VolumeOptions(name="pvc-u-1", claim=claim, storage_class=storage_class, node=None)


async def test_host_paths_are_provisioned_only_if_enabled(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match=r"Provisioning in volume plugin .* is disabled"):
        await HostPath(root=tmp_path).provision(options())
    assert os.listdir(tmp_path) == []
    with pytest.raises(VolumeError, match="does not support block volume provisioning"):
        await HostPath(provisions=True, root=tmp_path).provision(options("Block"))


async def test_a_claim_gets_a_directory_that_is_removed_with_its_volume(tmp_path: Path) -> None:
    plugin = HostPath(provisions=True, root=tmp_path)
    spec = await plugin.provision(options())
    assert spec == await plugin.provision(options()), "a second attempt has the same result"
    assert spec.hostPath is not None
    assert Path(spec.hostPath.path) == tmp_path / "u-1"
    assert os.path.isdir(tmp_path / "u-1")
    if str(tmp_path).startswith("/tmp/"):
        await plugin.remove(PersistentVolume(metadata=ObjectMeta(name="pvc-u-1"), spec=spec))
        assert os.listdir(tmp_path) == []
