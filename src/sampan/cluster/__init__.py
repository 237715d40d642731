"""A whole cluster in one process: its components created, connected and run.

This is the composition root of `sampan up` and of the test library: the store, the API server, the controllers, the
scheduler and the nodes, with the keys, roles and addresses that they need. It knows no flags and prints nothing; the
commands of `sampan.cli` turn flags into a `ClusterConfig`. `nodes` has the nodes, `machine` what the clusters of a
machine share, `join` the nodes that join from other machines, and `snapshot` the copies of a cluster. The nearest
counterparts are `kubeadm` and the launcher of `kind`.
"""
