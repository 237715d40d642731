"""Dynamic resources: devices that pods claim, prepared by their drivers before a pod runs and given back after it.

`drivers` are those that are registered, `prepared` is what is written down of claims, `health` is how drivers say that
devices are, `manager` brings it together.
"""

from sampan.kubelet.devices.dra.manager import ClaimNotPrepared, DynamicResources

__all__ = ["ClaimNotPrepared", "DynamicResources"]
