"""Features that Kubernetes has removed from the kubelet, kept in one place, so that one sees what they cost.

| feature | state in Kubernetes | where |
|---|---|---|
| the port of cAdvisor (`--cadvisor-port`) | removed in 1.12 | `cadvisor_port` |
"""
