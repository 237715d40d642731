"""Devices of a node: those of device plugins, which pods request as extended resources, and those of dynamic resource
allocation, which pods claim (`pkg/kubelet/cm/devicemanager`, `pkg/kubelet/cm/dra`).

`manager` handles device plugins, `dra` handles dynamic resource allocation. `DeviceRunOptions` is the configuration
that both add to containers. `pod_resources` serves the pod resources API. Nothing here depends on how containers are
run.
"""

from sampan.kubelet.devices.manager import DeviceManager
from sampan.kubelet.devices.plugin import EMPTY_DEVICE_OPTIONS, DeviceRunOptions, merge_options

__all__ = ["EMPTY_DEVICE_OPTIONS", "DeviceManager", "DeviceRunOptions", "merge_options"]
