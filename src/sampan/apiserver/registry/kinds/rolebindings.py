"""RoleBinding: grants a role in a namespace."""

from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.rbac_rules import BindingStrategy

BEHAVIOUR = ResourceBehaviour(strategy=BindingStrategy(is_namespaced=True, kind="roleBinding"))
