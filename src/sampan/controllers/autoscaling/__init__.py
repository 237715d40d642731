"""horizontal-pod-autoscaler-controller: as many replicas as the load asks for.

`metrics` is the contract of those who know the load, `metrics_api` asks the metrics APIs. Pure: `pod_groups` says which
pods' figures count, `replicas` how many replicas figures ask for, `stabilizing` and `limits` how far a recommendation
is followed. `proposals` goes through a spec's metrics, `target` reads and writes the scale, `look` brings it all
together, `controller` is the loop.
"""

from sampan.controllers.autoscaling.controller import make

__all__ = ["make"]
