"""Controllers of long-running workloads: ReplicationController, ReplicaSet, Deployment, DaemonSet and StatefulSet
(`pkg/controller/replication`, `replicaset`, `deployment`, `daemon`, `statefulset`).

Shared code is in `controllers.ownership`.
"""
