"""What kubelets may do: little, and of secrets and the like only those that pods on their node use."""

from sampan.apiserver.authz.node.authorizer import NodeAuthorizer
from sampan.apiserver.authz.node.relations import NodeRelations

__all__ = ["NodeAuthorizer", "NodeRelations"]
