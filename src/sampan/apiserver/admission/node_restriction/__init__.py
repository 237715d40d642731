"""NodeRestriction: a kubelet may only write its own node and related objects, and the pods on it.

`plugin` is the admission plug-in, `audiences` says for which audiences a node may request tokens. The counterpart is
`plugin/pkg/admission/noderestriction`.
"""

from sampan.apiserver.admission.node_restriction.plugin import NodeRestriction

__all__ = ["NodeRestriction"]
