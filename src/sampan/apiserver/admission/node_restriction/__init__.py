"""NodeRestriction: a kubelet may only write its own node and related objects, and the pods on it.

`mirror_pods` defines which pods a node may create, `audiences` for which audiences it may request tokens; `plugin` is
the admission plug-in. The counterpart is `plugin/pkg/admission/noderestriction`.
"""

from sampan.apiserver.admission.node_restriction.plugin import NodeRestriction

__all__ = ["NodeRestriction"]
