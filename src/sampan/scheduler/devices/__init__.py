"""Dynamic resource allocation: which devices a node can use and how they are allocated to claims.

The counterpart is `k8s.io/dynamic-resource-allocation/structured`. Resource slices form pools (`pools`), of which each
node sees some (`device_inventory`); `allocated_devices` records which devices are in use. `claim_requests` holds the
requests of claims; `device_selectors` and `device_constraints` limit the devices that match a request. Extended
resources that a device class provides become a claim (`extended_resources`). `allocator` allocates for one node,
`allocation_cache` caches the outcome for all nodes and equal claims, `pod_allocation` applies it to a pod.
`resource_claims` writes claims and waits for devices. The DynamicResources plugin uses all of them.
"""
