"""job-controller, which runs pods to completion and counts each finished pod exactly once (`pkg/controller/job`).

The pure part is `view` (the state of a job and its pods), `verdict` (whether the job is to finish), `wanted` (which
pods to create and delete) and `tally` (how finished pods are counted). `controller` acts on them. A pod keeps the
job-tracking finalizer until it is counted, and the job's status lists the pods that are being counted, so that a crash
in between neither loses a pod nor counts it twice.
"""

from sampan.controllers.batch.job.controller import make

__all__ = ["make"]
