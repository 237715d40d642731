"""Proxying from the API server to kubelets, pods and services.

`locations` determines the destination of a request and `response_rewriter` rewrites links in responses, both pure;
`kubelets` determines how to reach a node, `upstream` forwards requests and upgraded connections, `logs` streams
container logs. The handlers of the subresources are `proxied` and `registry.kinds.pods.connect`. The counterparts are
`k8s.io/apimachinery/pkg/util/proxy` and `pkg/kubelet/client`.
"""
