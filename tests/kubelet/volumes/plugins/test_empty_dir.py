"""Sizes of emptyDir volumes in memory and on huge pages."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import EmptyDirVolumeSource
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.plugins.empty_dir import memory_size, page_size
from tests.kubelet.volumes.pods import pod


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
