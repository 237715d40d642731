"""The nodes of one machine: a network namespace and an address for each of them.

`attachment` says where a node works. A node without a namespace of its own works in that of this process.
"""

from sampan.network.nodes.attachment import NodeAttachment

__all__ = ["NodeAttachment"]
