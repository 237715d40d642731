"""Cgroups of the node's pods: one for all pods, one per QoS class, one per pod (`pkg/kubelet/cm`).

`limits` computes the limits of a pod's cgroup (pure); `hierarchy` writes cgroups of version 1 and 2; `pod_groups`
manages those of a node. The container runtime creates the cgroups of containers below that of their pod.
"""

from sampan.kubelet.cgroups.pod_groups import PodGroups

__all__ = ["PodGroups"]
