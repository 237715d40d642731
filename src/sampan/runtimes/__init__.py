"""Container runtimes that run the pods of a node, one package or module per runtime, all of them `contract.Runtime`.

A runtime manages the sandboxes, containers and images of one node. It does not talk to the API server: which pods run,
and when a failed start is retried, is decided by the kubelet. The counterparts in Kubernetes are the Container Runtime
Interface (`staging/src/k8s.io/cri-api`) and `pkg/kubelet/kuberuntime`.
"""
