"""Groups of processes that a node limits: one for all pods, one for each class of service, one for each pod.

`limits` works out what a pod's group may use (pure); `hierarchy` writes groups of either version of the kernel's
interface; `pod_groups` keeps those of a node. Containers have their own groups below their pod's; the runtime makes
these.
"""

from sampan.kubelet.cgroups.pod_groups import PodGroups

__all__ = ["PodGroups"]
