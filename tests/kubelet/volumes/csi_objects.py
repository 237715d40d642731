"""API objects of the CSI driver of the tests and of a volume of it."""

from typing import Any

from sampan.api.types.storage_v1 import CSIDriver
from tests.kubelet.volumes.csi_driver import NAME
from tests.kubelet.volumes.volume_manager_node import CLAIM_VOLUME, Scene

CLAIM = [CLAIM_VOLUME]


async def csi_volume(scene: Scene, *, pv: dict[str, Any] | None = None, **csi: Any) -> None:
    """Create claim c and volume v of the driver, bound to each other."""
    source = {"driver": NAME, "volumeHandle": "handle", "volumeAttributes": {"color": "red"}, **csi}
    await scene.create_bound_claim(csi=source, **(pv or {}))


async def driver_object(scene: Scene, **spec: Any) -> None:
    await scene.create(CSIDriver, NAME, "", spec=spec)
