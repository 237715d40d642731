"""job-controller: pods that run to their end, as many as are asked for, each counted exactly once.

`view` says what a job and its pods amount to, `verdict` whether the job is at its end, `wanted` which pods to make and
to remove, `tally` how finished pods are counted: all pure. `controller` acts on them. A pod of a job carries a
finalizer until it is counted, and the status names the pods that are being counted: whatever happens in between, none
is counted twice or forgotten.
"""

from sampan.controllers.batch.job.controller import make

__all__ = ["make"]
