"""Volumes of a node's pods: everything from a pod's spec to what its containers mount, and back.

`manager` is what the kubelet uses; `contract` is what a plug-in is; `plugins` and `csi` are those that there are. What
is shared by them: `atomic` (files that change at once), `ownership` (fsGroup), `subpaths`, `mounting`, `tokens`.
Nothing here knows of containers beyond what they mount.
"""

from sampan.kubelet.volumes.host import VolumeConfig
from sampan.kubelet.volumes.manager import LimitExceeded, StillWaiting, VolumeManager

__all__ = ["LimitExceeded", "StillWaiting", "VolumeConfig", "VolumeManager"]
