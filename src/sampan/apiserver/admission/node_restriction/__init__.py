"""NodeRestriction: a kubelet changes its own node, the pods that run there, and nothing else.

`labels` knows which labels are a node's own to set and `mirror_pods` what pods it may make (both pure); `plugin` is
the shell.
"""

from sampan.apiserver.admission.node_restriction.plugin import NodeRestriction

__all__ = ["NodeRestriction"]
