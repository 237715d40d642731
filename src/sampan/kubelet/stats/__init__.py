"""Resource usage of a node and its pods (`pkg/kubelet/server/stats`, cAdvisor).

`machine` reads the usage of the machine from the kernel, `collector` queries the runtime and caches the results
briefly; `summary` is the format of /stats/summary, `metrics_text` that of Prometheus, `cadvisor` that of cAdvisor. The
last three are pure.
"""
