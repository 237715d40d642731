"""The network of a node, with one package per part.

`pods` connects the pods of one machine to each other, to the node and to the outside; its counterpart is a CNI plugin
such as `bridge`. `proxy` is kube-proxy. `load_balancer` gives addresses to services of type LoadBalancer, `ingress` is
an Ingress controller, and `policy` enforces network policies. `mesh` connects the pods of different machines. Each part
has its own nftables table and changes no other; `nft` runs the program for all of them. Decisions (addresses, text of
rules) are pure and separate from changes to the machine. Nothing here depends on internals of the API server.
"""
