"""The commands that run a single component with the flags of the real one, such as `sampan kube-scheduler`.

There is one module per command. `component` has what the commands without an API server share: the connection to it,
leader election and the port for health and metrics (`component_port`); `kubelet_access` has the credentials of a
kubelet. Flags are in `sampan.cli.flags`. The counterparts in Kubernetes are `cmd/kube-apiserver`, `cmd/kubelet` and
their like.
"""
