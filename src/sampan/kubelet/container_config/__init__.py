"""The configuration of a pod's sandbox and containers, from the pod to what is passed to the container runtime.

Pure functions, one concern each: `downward` API, `variables`, `network_files` (hostname, resolv.conf, /etc/hosts),
`security`, `resources` (limits for cgroups). `builder` reads the secrets, config maps and services that they need and
assembles the configuration.
(Kubernetes: `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/network/dns`, `pkg/securitycontext`.)
"""
