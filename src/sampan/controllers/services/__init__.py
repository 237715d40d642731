"""Controllers of services: Endpoints, endpoint slices, load balancers and ServiceCIDRs.

The counterparts are `pkg/controller/endpoint`, `endpointslice`, `endpointslicemirroring`, `servicecidrs`, and
`k8s.io/cloud-provider/controllers/service`.
"""
