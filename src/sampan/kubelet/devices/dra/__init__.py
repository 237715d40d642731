"""Dynamic resource allocation: claims are prepared by their drivers before a pod runs and unprepared after it
(`pkg/kubelet/cm/dra`).

`drivers` are the registered drivers, `claim_info` is the checkpoint of claims, `health` the health of devices,
`manager` combines them.
"""

from sampan.kubelet.devices.dra.claim_info import ClaimNotPrepared
from sampan.kubelet.devices.dra.manager import DraManager

__all__ = ["ClaimNotPrepared", "DraManager"]
