"""Resource usage of a node and its pods (`pkg/kubelet/server/stats`, cAdvisor).

`collector` reads the usage of the machine from the kernel and that of pods from the runtime; `summary` is the format of
/stats/summary, `metrics_text` that of Prometheus, `cadvisor` that of cAdvisor. The last three are pure.
"""
