"""Sizes of emptyDir volumes in memory and on huge pages, and the mode of their directories."""

import stat
from pathlib import Path
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import EmptyDirVolumeSource, Volume
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.plugins.empty_dir import memory_size, page_size
from sampan.machinery.copies import copy_of
from tests.kubelet.volumes.pods import pod
from tests.kubelet.volumes.volume_manager_node import Scene, run_scenario


def limited_container(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory}}}


@pytest.mark.parametrize(
    ("containers", "limit", "size"),
    [
        ([{}], None, 1 << 30),
        ([{}], "1Mi", 1 << 20),
        ([{}], "2Gi", 1 << 30),
        ([limited_container("64Mi"), limited_container("64Mi")], None, 128 << 20),
        ([limited_container("64Mi"), {}], None, 1 << 30),
        ([limited_container("64Mi")], "32Mi", 32 << 20),
    ],
)
def test_a_volume_in_memory_has_the_smallest_applicable_size(
    containers: list[dict[str, Any]], limit: str | None, size: int
) -> None:
    assert memory_size(pod(*containers), EmptyDirVolumeSource(medium="Memory", sizeLimit=limit), "1Gi") == size


def test_the_page_size_comes_from_the_medium_or_the_requests() -> None:
    asking = pod({"resources": {"requests": {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}}})
    assert page_size(asking, "HugePages-2Mi") == "2Mi"
    with pytest.raises(VolumeOperationError, match="multiple huge page sizes"):
        page_size(asking, "HugePages")
    with pytest.raises(VolumeOperationError, match="no resource request for huge pages"):
        page_size(pod({}), "HugePages")


@pytest.mark.parametrize(("is_on", "mode"), [(True, 0o1750), (False, 0o777)])
def test_the_directory_has_the_requested_mode_if_the_feature_is_on(tmp_path: Path, is_on: bool, mode: int) -> None:
    async def scenario(scene: Scene) -> None:
        pod = copy_of(await scene.pod(volumes=[{"name": "v", "emptyDir": {}}]))
        pod.spec.volumes = [Volume(name="v", emptyDir=EmptyDirVolumeSource(mode=0o1750))]
        gates = FeatureGates({"EmptyDirVolumeMode": is_on}, level=37)
        async with scene.running_manager(mounter=Mounter(can_mount=False), feature_gates=gates) as manager:
            await manager.mount(pod)
            assert stat.S_IMODE(scene.directory(pod, "empty-dir", "v").stat().st_mode) == mode
            await manager.unmount(pod)

    run_scenario(tmp_path, scenario)
