"""The configuration of a pod's sandbox and containers, which the kubelet computes from the pod and passes to the
runtime.

Pure functions, one concern each: `downward` API, `variables`, `network_files` (hostname, resolv.conf, /etc/hosts),
`security`, `resources` (limits for cgroups). `builder` reads the secrets, config maps and services that they need and
assembles the configuration. (Kubernetes: `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/network/dns`,
`pkg/securitycontext`.)
"""
