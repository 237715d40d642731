"""Controllers of nodes: lifecycle, taint-based eviction, pod CIDRs, cloud routes, and pod garbage collection
(`pkg/controller/nodelifecycle`, `nodeipam`, `tainteviction`, `podgc`, `ttl`, and `k8s.io/cloud-provider/controllers`).
"""
