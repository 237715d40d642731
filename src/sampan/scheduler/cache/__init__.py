"""The scheduler's view of the cluster: nodes as rows of numpy columns, and pods that share what is equal.

The counterpart is `pkg/scheduler/backend/cache` with `NodeInfo` and `PodInfo` of `pkg/scheduler/framework/types.go`;
there is no snapshot, because only the scheduling loop accesses the table. `scheduler_cache` tracks assumed and
nominated pods, `node_table` holds the rows, `pod_signature` what filters may read of a pod, `pod_counts` the pods by
node and topology domain that spreading and affinity need. Nothing here imports the framework, the queue or a plug-in.
"""
