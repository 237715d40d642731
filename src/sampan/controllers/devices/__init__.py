"""Controllers of dynamic resource allocation (resource.k8s.io).

The counterparts are `pkg/controller/resourceclaim` and `pkg/controller/devicetainteviction`.
"""
