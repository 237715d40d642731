"""Persistent volumes wherever they stand: as an object, and inline in an attachment. Defaults, sources, the faults of a
spec and of a change, and what volumes and claims say of their class.

Sources that pods have as well are in `registry.podspec`, claims in `registry.podspec.claims`.
"""
