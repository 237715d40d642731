"""Plugins on a node: programs that create a socket in the kubelet's directory and are called by gRPC
(`pkg/kubelet/pluginmanager`).

`registry` discovers plugins and passes each to the handler of its type: CSI drivers to `sampan.kubelet.volumes`,
device plugins and DRA drivers to `sampan.kubelet.devices`. `calls` makes the gRPC calls.
"""

from sampan.kubelet.plugin_registry.registry import PluginError, PluginHandler, PluginRegistry

__all__ = ["PluginError", "PluginHandler", "PluginRegistry"]
