"""daemonset-controller, which runs one pod of a DaemonSet on every eligible node (`pkg/controller/daemon`).

`nodes` selects the nodes and builds their pods, `rollout` decides which pods to create and delete, `view` counts,
`history` keeps the revisions, and `controller` acts.
"""
