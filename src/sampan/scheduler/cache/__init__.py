"""The scheduler's view of the cluster: nodes as rows of numpy columns, and pods whose equal parts are shared objects.

The counterpart is `pkg/scheduler/backend/cache` with `NodeInfo` and `PodInfo` of `pkg/scheduler/framework/types.go`.
There is no snapshot, because only the scheduling loop accesses the table.

`scheduler_cache` tracks assumed and nominated pods, `node_table` holds the rows, `pod_signature` the part of a pod that
filters may read, and `pod_counts` the pods by node and topology domain that spreading and affinity need. Nothing here
imports the framework, the queue or a plugin.
"""
