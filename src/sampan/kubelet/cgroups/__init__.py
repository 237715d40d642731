"""Cgroups of the node's pods: one for all pods, one per QoS class, one per pod (`pkg/kubelet/cm`).

`hierarchy` writes cgroups of version 1 and 2; `pod_cgroups` computes the limits of pods and manages the cgroups of a
node. The container runtime creates the cgroups of containers below that of their pod.
"""

from sampan.kubelet.cgroups.pod_cgroups import PodCgroups

__all__ = ["PodCgroups"]
