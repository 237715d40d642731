"""The Kubernetes API as Python types: structs per group and version, schemas, names, quantities, selectors, codecs.

Pure data and pure functions: no I/O, no clock, no asyncio. It imports nothing else of Sampan. The Kubernetes
counterparts are `k8s.io/api` and `k8s.io/apimachinery`.
"""
