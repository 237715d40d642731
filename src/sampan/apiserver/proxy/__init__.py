"""From the API server on to others: kubelets, pods and services.

`locations` says where a request leads, `rewriting` makes links in answers lead through the proxy again, both pure;
`kubelets` knows how to reach a node, `upstream` sends a request there and the answer back, or joins the connections
where the protocol changes. The handlers of the subresources are `proxied` and `registry.kinds.pod_connect`.
"""
