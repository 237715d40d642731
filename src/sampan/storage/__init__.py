"""The durable store: the `Backend` contract, its implementations, and the cacher above them.

Only the API server uses this package. May import `sampan.api` and `sampan.machinery`.
"""
