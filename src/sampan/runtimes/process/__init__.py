"""The runtime `process`: a container is a group of plain processes of this machine, for want of anything better.

It needs no root and isolates nothing: containers see the machine's files and processes, share its network (a pod's
address is the node's), run as the user who runs Sampan, and have no limits. What a pod asks for that would need more is
refused with a message that says so, never silently left out. The only image is `sampan.local/host`.
"""

from sampan.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
