"""The plugin of host paths: off unless it is enabled, and a directory for each claim otherwise."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sampan.api.types.core_v1 import (
    HostPathVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.storage.plugins import HostPath, LocalPath, VolumeError, VolumeOptions
from sampan.host.linux.directory_trees import opened_position


def options(mode: str = "Filesystem") -> VolumeOptions:
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="default", uid="u-1"),
        spec=PersistentVolumeClaimSpec(volumeMode=mode),
    )
    storage_class = StorageClass(metadata=ObjectMeta(name="host"), provisioner=HostPath.name)
    return VolumeOptions(name="pvc-u-1", claim=claim, storage_class=storage_class, node=None)


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory where volumes may be removed: the plugin removes nothing outside of /tmp."""
    with TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


async def test_host_paths_are_provisioned_only_if_enabled(root: Path) -> None:
    with pytest.raises(VolumeError, match=r"Provisioning in volume plugin .* is disabled"):
        await HostPath(root=root).provision(options())
    assert os.listdir(root) == []
    with pytest.raises(VolumeError, match="does not support block volume provisioning"):
        await HostPath(provisions=True, root=root).provision(options("Block"))


async def test_a_claim_gets_a_directory_that_is_removed_with_its_volume(root: Path) -> None:
    plugin = HostPath(provisions=True, root=root)
    spec = await plugin.provision(options())
    assert spec == await plugin.provision(options()), "a second attempt has the same result"
    assert spec.hostPath is not None
    assert Path(spec.hostPath.path) == root / "u-1"
    assert os.listdir(root) == ["u-1"]
    await plugin.remove(PersistentVolume(metadata=ObjectMeta(name="pvc-u-1"), spec=spec))
    assert os.listdir(root) == []


def local_volume(path: Path) -> PersistentVolume:
    source = HostPathVolumeSource(path=str(path))
    return PersistentVolume(metadata=ObjectMeta(name="pvc-1"), spec=PersistentVolumeSpec(hostPath=source))


async def test_a_volume_of_deep_directories_is_deleted(root: Path) -> None:
    volume = root / "pvc-1_default_data"
    volume.mkdir()
    with opened_position(volume) as position:
        for _ in range(3000):
            os.mkdir("deep", dir_fd=position.descriptor)
            position.enter("deep")
    await LocalPath(root=str(root)).remove(local_volume(volume))
    assert os.listdir(root) == []


async def test_a_volume_whose_directory_is_a_link_is_deleted_without_its_target(root: Path) -> None:
    (root / "target").mkdir()
    (root / "target/file").touch()
    volume = root / "pvc-1_default_data"
    volume.symlink_to(root / "target")
    await LocalPath(root=str(root)).remove(local_volume(volume))
    assert sorted(os.listdir(root)) == ["target"]
    assert (root / "target/file").exists()
    with pytest.raises(VolumeError, match="is not one of"):
        await LocalPath(root=str(root)).remove(local_volume(root / "target"))
