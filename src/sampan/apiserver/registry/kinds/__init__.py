"""One module per kind: its `SERVED` says what is special about it. A kind without a module is served generically.

The table names the modules, so that a server that never sees a kind never imports it.
"""

from typing import Final

MODULES: Final[dict[tuple[str, str], str]] = {
    ("", "bindings"): "pod_binding",
    ("", "configmaps"): "configmaps",
    ("", "endpoints"): "endpoints",
    ("", "events"): "events",
    ("", "limitranges"): "limitranges",
    ("", "namespaces"): "namespaces",
    ("", "nodes"): "nodes",
    ("", "persistentvolumeclaims"): "persistentvolumeclaims",
    ("", "persistentvolumes"): "persistentvolumes",
    ("", "pods"): "pods",
    ("", "podtemplates"): "podtemplates",
    ("", "replicationcontrollers"): "replicationcontrollers",
    ("", "resourcequotas"): "resourcequotas",
    ("", "secrets"): "secrets",
    ("", "serviceaccounts"): "serviceaccounts",
    ("", "services"): "services",
    ("apps", "controllerrevisions"): "controllerrevisions",
    ("apps", "daemonsets"): "daemonsets",
    ("apps", "deployments"): "deployments",
    ("apps", "replicasets"): "replicasets",
    ("apps", "statefulsets"): "statefulsets",
    ("autoscaling", "horizontalpodautoscalers"): "horizontalpodautoscalers",
    ("batch", "cronjobs"): "cronjobs",
    ("batch", "jobs"): "jobs",
    ("coordination.k8s.io", "leases"): "leases",
    ("discovery.k8s.io", "endpointslices"): "endpointslices",
    ("events.k8s.io", "events"): "events_v1",
    ("networking.k8s.io", "ingressclasses"): "ingressclasses",
    ("networking.k8s.io", "ingresses"): "ingresses",
    ("networking.k8s.io", "ipaddresses"): "ipaddresses",
    ("networking.k8s.io", "networkpolicies"): "networkpolicies",
    ("networking.k8s.io", "servicecidrs"): "servicecidrs",
    ("policy", "poddisruptionbudgets"): "poddisruptionbudgets",
    ("scheduling.k8s.io", "priorityclasses"): "priorityclasses",
    ("storage.k8s.io", "csidrivers"): "csidrivers",
    ("storage.k8s.io", "csinodes"): "csinodes",
    ("storage.k8s.io", "csistoragecapacities"): "csistoragecapacities",
    ("storage.k8s.io", "storageclasses"): "storageclasses",
    ("storage.k8s.io", "volumeattachments"): "volumeattachments",
    ("storage.k8s.io", "volumeattributesclasses"): "volumeattributesclasses",
}
