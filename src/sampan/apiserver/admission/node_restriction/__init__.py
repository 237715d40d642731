"""NodeRestriction: a kubelet may only write its own node and related objects, and the pods on it.

`labels` defines which labels a node may set on itself and `mirror_pods` which pods it may create (both pure); `plugin`
is the admission plugin. The counterpart is `plugin/pkg/admission/noderestriction`.
"""

from sampan.apiserver.admission.node_restriction.plugin import NodeRestriction

__all__ = ["NodeRestriction"]
