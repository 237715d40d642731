"""RoleBinding: grants a role in a namespace."""

from sampan.apiserver.registry.rbac_rules import BindingStrategy
from sampan.apiserver.registry.served import Served

SERVED = Served(strategy=BindingStrategy(is_namespaced=True, kind="roleBinding"))
