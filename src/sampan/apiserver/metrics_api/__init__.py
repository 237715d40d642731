"""metrics.k8s.io/v1beta1: what nodes and pods use, from their kubelets; for `kubectl top` and the autoscaler.

`forms` makes the objects, pure; `source` asks the kubelets; `api` serves them once there is one (`first_kubelet`), to
those who may view a namespace too (`reader_role`). `elsewhere` sends on what an APIService gives to somebody else.
"""
