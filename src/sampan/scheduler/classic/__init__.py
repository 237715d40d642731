"""Features that Kubernetes has removed from kube-scheduler, kept in one place, so that one sees what they cost.

| feature | state in Kubernetes | where |
|---|---|---|
| policies (`--policy-config-file`, `--policy-configmap`) and `--algorithm-provider` | removed in 1.23 | `policy` |
| the plugins NodeLabel and ServiceAffinity, for policies | removed in 1.23 | `node_label`, `service_affinity` |
| the plugin SelectorSpread | removed in 1.24 | `selector_spread` |
"""

from collections.abc import Mapping

_PACKAGE = "sampan.scheduler.classic"
PLUGINS: Mapping[str, str] = {
    "NodeLabel": f"{_PACKAGE}.node_label:NodeLabel",
    "ServiceAffinity": f"{_PACKAGE}.service_affinity:ServiceAffinity",
    "SelectorSpread": f"{_PACKAGE}.selector_spread:SelectorSpread",
}
"""The plugins by name, as `module:Class`."""
