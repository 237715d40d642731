"""metrics.k8s.io/v1beta1: what nodes and pods use, from their kubelets; for `kubectl top` and the autoscaler.

`forms` makes the objects, pure; `source` asks the kubelets; `api` serves them, as long as no APIService of the cluster
says that somebody else does.
"""
