"""The runtime `process`, in which a container is a session of plain processes of the machine.

It needs no root privileges and isolates nothing: containers see the files and processes of the machine, share its
network (the pod IP is the node IP), run as the user that runs Sampan, and have no resource limits. A pod that asks for
more is rejected with a message that names the unsupported fields, instead of ignoring them. The only image is
`sampan.local/host`.
"""

from sampan.runtimes.process.runtime import ProcessRuntime

__all__ = ["ProcessRuntime"]
