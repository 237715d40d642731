"""RoleBinding: grants a role in a namespace."""

from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.rbac_rules import RoleBindingStrategy

BEHAVIOUR = ResourceBehaviour(strategy=RoleBindingStrategy(is_namespaced=True, kind="roleBinding"))
