"""ClusterRoleBinding: grants a cluster role in the whole cluster."""

from sampan.apiserver.registry.rbac_rules import BindingStrategy
from sampan.apiserver.registry.served import Served

SERVED = Served(strategy=BindingStrategy(is_namespaced=False, kind="clusterRoleBinding"))
