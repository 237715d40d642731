"""Controllers of services: Endpoints, EndpointSlices, load balancers and ServiceCIDRs (`pkg/controller/endpoint`,
`endpointslice`, `endpointslicemirroring`, `servicecidrs`, and `k8s.io/cloud-provider/controllers/service`).
"""
