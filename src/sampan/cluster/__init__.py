"""A whole cluster in one process: its components created, connected and run.

This is the composition root of `sampan up` and of the test library: the store, the API server, the controllers, the
scheduler and the nodes, with the keys, roles and addresses that they need. It knows no flags and prints nothing; the
commands of `sampan.cli` turn flags into a `ClusterConfig`. The nearest counterparts are `kubeadm` and the launcher of
`kind`.
"""
