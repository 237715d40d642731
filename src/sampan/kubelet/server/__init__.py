"""The kubelet's HTTP server (`pkg/kubelet/server`).

`view` is the interface to the kubelet, `node_views` implements it for real and hollow nodes. `auth` authenticates and
authorizes requests, `server` dispatches them and serves health, stats and metrics, `ports` listens. Other handlers are
`logs`, `streaming` (exec, attach, port-forward, run) and `pprof`.
"""
