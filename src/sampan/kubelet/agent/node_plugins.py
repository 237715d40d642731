"""Plug-ins of others on this node, and those who have use for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.kubelet.volumes.csi.handler import TYPE as CSI

if TYPE_CHECKING:
    from sampan.kubelet.agent.kubelet import Kubelet
    from sampan.kubelet.volumes import VolumeManager


def make_registry(kubelet: Kubelet, volumes: VolumeManager) -> PluginRegistry:
    folder = kubelet.config.root / "plugins_registry"
    return PluginRegistry(folder=folder, handlers={CSI: volumes.csi_handler}, clock=kubelet.clock)


__all__ = ["make_registry"]
