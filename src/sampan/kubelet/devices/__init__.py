"""Devices of a node: those of device plug-ins, which pods request as extended resources, and those of dynamic resource
allocation, which pods claim (`pkg/kubelet/cm/devicemanager`, `pkg/kubelet/cm/dra`).

`manager` handles the former, `dra` the latter; `given` is the container configuration that results from both.
`pod_resources` serves the pod resources API. Nothing here depends on how containers are run.
"""

from sampan.kubelet.devices.given import NOTHING, Given, together
from sampan.kubelet.devices.manager import DeviceManager

__all__ = ["NOTHING", "DeviceManager", "Given", "together"]
