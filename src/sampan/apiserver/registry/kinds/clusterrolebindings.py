"""ClusterRoleBinding: grants a cluster role in the whole cluster."""

from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.rbac_rules import RoleBindingStrategy

BEHAVIOR = ResourceBehavior(strategy=RoleBindingStrategy(is_namespaced=False, kind="clusterRoleBinding"))
