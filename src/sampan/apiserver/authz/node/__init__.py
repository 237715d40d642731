"""The node authorizer, which limits kubelets to objects that are related to pods on their node. The counterpart is
`plugin/pkg/auth/authorizer/node`."""

from sampan.apiserver.authz.node.authorizer import NodeAuthorizer
from sampan.apiserver.authz.node.graph import NodeGraph

__all__ = ["NodeAuthorizer", "NodeGraph"]
