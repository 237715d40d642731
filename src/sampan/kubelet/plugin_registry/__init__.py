"""Plug-ins of others on a node: programs that put a socket into the kubelet's folder, and are spoken to by gRPC.

`registry` finds them as they come and go and hands each to the one who has use for its type: CSI drivers to the
volumes, plug-ins of devices and drivers of dynamic resources to `sampan.kubelet.devices`. `calls` is how all of them
are asked.
"""

from sampan.kubelet.plugin_registry.registry import Handler, PluginFault, PluginRegistry

__all__ = ["Handler", "PluginFault", "PluginRegistry"]
