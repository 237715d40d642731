"""The metrics API, metrics.k8s.io/v1beta1: the resource usage of nodes and pods, for `kubectl top` and autoscaling.

`resource_metrics` queries the kubelets and builds the objects; `api` serves them once there is a kubelet, also to users
with the view role, unless an APIService names another server. The counterpart is metrics-server.
"""
