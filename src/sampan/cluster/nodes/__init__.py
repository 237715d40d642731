"""The nodes of a cluster in one process: hollow and real ones, with their runtimes, networks, proxies and kubelets.

The configuration is in `nodes_config`, `real_nodes` and `hollow_nodes` start them, and `node_network` has what runs
beside the kubelet of each real node. The kubelet itself does not belong here.
"""
