"""Volumes of a node's pods, from the pod's spec to the mounts of its containers and back (`pkg/kubelet/volumemanager`,
`pkg/volume`).

`manager` is the interface to the kubelet; `contract` is the interface of plug-ins, which are in `plugins` and `csi`.
They share `atomic` (atomic updates of files), `ownership` (fsGroup), `subpaths`, `mounting` and `tokens`. Nothing here
depends on containers beyond their mounts.
"""

from sampan.kubelet.volumes.host import VolumeConfig
from sampan.kubelet.volumes.manager import LimitExceeded, StillWaiting, VolumeManager

__all__ = ["LimitExceeded", "StillWaiting", "VolumeConfig", "VolumeManager"]
