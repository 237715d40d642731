"""RoleBinding: grants a role in a namespace."""

from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.rbac_rules import RoleBindingStrategy

BEHAVIOR = ResourceBehavior(strategy=RoleBindingStrategy(is_namespaced=True, kind="roleBinding"))
