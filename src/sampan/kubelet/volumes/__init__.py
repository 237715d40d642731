"""Volumes of a node's pods, from the pod's spec to the mounts of its containers and back (`pkg/kubelet/volumemanager`,
`pkg/volume`).

`manager` is the interface to the kubelet; `contract` is the interface of plugins, which are in `plugins` and `csi`.
Plugins share `atomic` (atomic updates of files), `ownership` (fsGroup), `subpaths`, `mounter` and `volume_host`.
Nothing here depends on containers beyond their mounts.
"""

from sampan.kubelet.volumes.manager import LimitExceeded, StillWaiting, VolumeCallbacks, VolumeManager
from sampan.kubelet.volumes.volume_host import VolumeConfig

__all__ = ["LimitExceeded", "StillWaiting", "VolumeCallbacks", "VolumeConfig", "VolumeManager"]
