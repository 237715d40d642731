"""Dynamic resource allocation: claims are prepared by their drivers before a pod runs and unprepared after it
(`pkg/kubelet/cm/dra`).

`drivers` are the registered drivers with the health of their devices, `claim_info` is the checkpoint of claims,
`manager` combines them.
"""

from sampan.kubelet.devices.dra.claim_info import ClaimNotPrepared
from sampan.kubelet.devices.dra.manager import DraManager

__all__ = ["ClaimNotPrepared", "DraManager"]
