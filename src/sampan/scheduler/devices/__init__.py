"""Dynamic resource allocation: which devices a node can use and how they are allocated to claims.

The counterpart is `k8s.io/dynamic-resource-allocation/structured`. Resource slices (`stock`) form pools (`pools`), of
which each node sees some (`views`); `ledger` records allocated devices. `wants` holds the requests of claims;
selectors, capacity, constraints and taints have a module each. Extended resources that a device class provides become a
claim (`classes`, `extended`). `search` allocates for one node, `answers` caches the outcome for all nodes and equal
claims, `results` converts it to API types. `binding` and `readiness` write claims and wait for devices. The
DynamicResources plug-in uses all of them.
"""
