"""Dynamic resource allocation: claims are prepared by their drivers before a pod runs and unprepared after it
(`pkg/kubelet/cm/dra`).

`drivers` are the registered drivers, `prepared` is the checkpoint of claims, `health` the health of devices, `manager`
combines them.
"""

from sampan.kubelet.devices.dra.manager import ClaimNotPrepared, DynamicResources

__all__ = ["ClaimNotPrepared", "DynamicResources"]
