"""ClusterRoleBinding: grants a cluster role in the whole cluster."""

from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.rbac_rules import RoleBindingStrategy

BEHAVIOUR = ResourceBehaviour(strategy=RoleBindingStrategy(is_namespaced=False, kind="clusterRoleBinding"))
