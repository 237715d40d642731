"""Controllers of long-running workloads: ReplicationController, ReplicaSet, Deployment, DaemonSet and StatefulSet.

The counterparts are `pkg/controller/replication`, `replicaset`, `deployment`, `daemon` and `statefulset`. Shared code
is in `controllers.ownership`.
"""
