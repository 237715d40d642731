"""Devices of a node: those of device plug-ins, which pods request as extended resources, and those of dynamic resource
allocation, which pods claim (`pkg/kubelet/cm/devicemanager`, `pkg/kubelet/cm/dra`).

`manager` handles the former, `dra` the latter; `run_options` is the container configuration that results from both.
`pod_resources` serves the pod resources API. Nothing here depends on how containers are run.
"""

from sampan.kubelet.devices.manager import DeviceManager
from sampan.kubelet.devices.run_options import NOTHING, DeviceRunOptions, merge_options

__all__ = ["NOTHING", "DeviceManager", "DeviceRunOptions", "merge_options"]
