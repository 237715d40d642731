"""job-controller, which runs pods to completion and counts each finished pod exactly once (`pkg/controller/job`).

The pure part is `pod_state` (predicates on pods, completion indexes, backoff), `view` (the state of a job and its
pods), `finish` (whether the job is to finish, by `policies` and `conditions`), `parallelism` (which pods to create and
delete) and `pod_tracker` (how finished pods are counted). `sync` and `controller` act on them. A pod keeps the
job-tracking finalizer until it is counted, and the job's status lists the pods that are being counted, so that a crash
in between neither loses a pod nor counts it twice.
"""
