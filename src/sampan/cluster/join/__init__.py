"""Nodes on other machines, for `sampan token`, `sampan join` and `sampan leave` (`cmd/kubeadm/app/phases`).

`token` has the text and the Secret of a bootstrap token, `grants` the RBAC objects and the ConfigMap cluster-info that
a join needs in the cluster. On the machine that joins, `discovery` finds and verifies the CA, `preflight` checks the
machine against the server, `bootstrap` requests the client certificate, `record` stores the join on the machine, `node`
runs the components of the node, and `departure` removes the node from the cluster.
"""
