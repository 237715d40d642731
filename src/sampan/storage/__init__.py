"""Durable storage: the `Backend` contract, its implementations, and the watch cache on top of them.

The counterpart is `k8s.io/apiserver/pkg/storage`. Only the API server uses this package, which may import `sampan.api`
and `sampan.machinery`.
"""
