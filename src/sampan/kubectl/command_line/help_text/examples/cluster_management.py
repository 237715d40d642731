"""The usage and the examples of the commands for cluster management."""

HELP = {
    "certificate": (
        "COMMAND [options]",
        """
# Approve a request
certificate approve csr-x
""",
    ),
    "certificate approve": (
        "(-f FILE | NAME) [options]",
        """
# Approve a request
certificate approve csr-x
""",
    ),
    "certificate deny": (
        "(-f FILE | NAME) [options]",
        """
# Deny a request
certificate deny csr-x
""",
    ),
    "cluster-info": (
        "[flags] [options]",
        """
# Show the address of the control plane
cluster-info
""",
    ),
    "cluster-info dump": (
        "[flags] [options]",
        """
# Write the objects and logs of all namespaces to files
cluster-info dump --all-namespaces --output-directory=./dump
""",
    ),
    "top": (
        "COMMAND [options]",
        """
# Show the usage of all nodes
top node
""",
    ),
    "top node": (
        "[NAME | -l SELECTOR] [options]",
        """
# Show the nodes with the highest memory usage first
top node --sort-by=memory
""",
    ),
    "top pod": (
        "[NAME | -l SELECTOR] [options]",
        """
# Show the usage of the containers of a pod
top pod web --containers

# Show the pods of all namespaces with the highest CPU usage first
top pod -A --sort-by=cpu
""",
    ),
    "cordon": (
        "NODE [options]",
        """
# Place no new pods on a node
cordon node-1
""",
    ),
    "uncordon": (
        "NODE [options]",
        """
# Allow pods on a node again
uncordon node-1
""",
    ),
    "drain": (
        "NODE [options]",
        """
# Evict the pods of a node, except those of daemon sets
drain node-1 --ignore-daemonsets

# Evict also pods without a controller, and wait at most 15 minutes
drain node-1 --force --grace-period=900 --timeout=15m
""",
    ),
    "taint": (
        "node NAME KEY[=VALUE]:EFFECT ... [options]",
        """
# Keep pods without a toleration away
taint node node-1 dedicated=gpu:NoSchedule

# Remove a taint
taint node node-1 dedicated:NoSchedule-
""",
    ),
}
