"""Controllers of nodes: lifecycle, taint-based eviction, pod CIDRs, cloud routes, and pod garbage collection.

The counterparts are `pkg/controller/nodelifecycle`, `tainteviction`, `nodeipam`, `podgc`, `ttl`, and
`k8s.io/cloud-provider/controllers` (node lifecycle and route).
"""
