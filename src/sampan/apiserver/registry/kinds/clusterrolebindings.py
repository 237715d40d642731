"""ClusterRoleBinding: grants a cluster role in the whole cluster."""

from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.rbac_rules import BindingStrategy

BEHAVIOUR = ResourceBehaviour(strategy=BindingStrategy(is_namespaced=False, kind="clusterRoleBinding"))
