"""The nodes of a cluster in one process: hollow and real ones, with their runtimes, networks, proxies and kubelets.

`nodes_config` has the configuration, `real_nodes` and `hollow_nodes` start the nodes, and `node_network` has the
components that run beside the kubelet of each real node. The kubelet itself does not belong here.
"""
