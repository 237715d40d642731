"""Resource usage of a node and its pods (`pkg/kubelet/server/stats`, cAdvisor).

`collector` reads the usage of the machine from the kernel and that of pods from the runtime. `summary` has the format
of /stats/summary, `metrics_text` the format of Prometheus, `cadvisor` the format of cAdvisor; these three are pure.
"""
