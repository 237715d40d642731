"""The metrics API, metrics.k8s.io/v1beta1: the resource usage of nodes and pods, for `kubectl top` and autoscaling.

`forms` builds the objects, pure; `source` queries the kubelets; `api` serves them once there is a kubelet
(`first_kubelet`), also to users with the view role (`reader_role`). `elsewhere` proxies to the service of an
APIService. The counterpart is metrics-server.
"""
