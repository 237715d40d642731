"""The kubelet's port: what others may see of a node and do in its containers.

`view` is the kubelet as its server sees it, `access` says who may what, `server` finds the handler of a path. The rest
is handlers: `container_logs`, `streaming` (exec, attach, port-forward, run), `figures` (stats and metrics),
`node_logs`, `profiling`, and `cadvisor`, which is a port of its own.
"""
