"""horizontal-pod-autoscaler-controller, which scales workloads on their metrics (`pkg/controller/podautoscaler`).

`metrics` is the interface of a metrics source, and its implementation with the metrics APIs. The pure part is
`replicas` (which pods' samples count, and how many replicas they call for) and `behavior` (how much of a recommendation
is applied). `proposals` evaluates the metrics of a spec, `target` reads and writes the scale
subresource, `reconciler` combines them, and `controller` is the control loop.
"""
