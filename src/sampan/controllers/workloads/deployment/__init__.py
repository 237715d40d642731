"""deployment-controller, which rolls out pod templates through ReplicaSets (`pkg/controller/deployment`).

The controller creates a ReplicaSet for every template and scales them. Pure functions over the Deployment and its
ReplicaSets decide, and `controller` acts:

    replicasets  the ReplicaSet of the current template, the old ones, their totals, annotations and limits
    rollout      new sizes: proportional scaling, one step of a rolling update or of the Recreate strategy
    status       the status with its conditions, and whether there was progress
    rollback     rollback to an older template, requested by annotation
    decision     which of these applies
"""
