"""The kubelet's HTTP server (`pkg/kubelet/server`).

`view` is the interface to the kubelet, `access` authenticates and authorizes requests, `server` dispatches them. The
handlers are `container_logs`, `streaming` (exec, attach, port-forward, run), `figures` (stats and metrics),
`node_logs`, `profiling`, and `cadvisor`, which has a port of its own.
"""
