"""The kubelet's HTTP server (`pkg/kubelet/server`).

`view` is the interface to the kubelet, `auth` authenticates and authorizes requests, `server` dispatches them, `ports`
listens. The handlers are `handlers` (health, stats and metrics), `logs`, `streaming` (exec, attach, port-forward, run),
`pprof`, and `cadvisor`, which has a port of its own.
"""
