"""Devices of a node: those of plug-ins, which pods ask for by number as extended resources, and those of dynamic
resources, which they claim.

`manager` has to do with the first, `dra` with the second; `given` is what a container is told of both. `pod_resources`
tells monitors who has what. Nothing here knows how containers are run.
"""

from sampan.kubelet.devices.given import NOTHING, Given, together
from sampan.kubelet.devices.manager import DeviceManager

__all__ = ["NOTHING", "DeviceManager", "Given", "together"]
