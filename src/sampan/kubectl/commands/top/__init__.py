"""`kubectl top`: show the resource usage of nodes and pods."""

from __future__ import annotations

from sampan.kubectl.command import KubectlGroup
from sampan.kubectl.commands.top import node, pod

command = KubectlGroup(
    "top", help="Show the CPU and memory usage of nodes or pods.", commands=[node.command, pod.command]
)
