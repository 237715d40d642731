"""Schemas of API objects: the tree that patching, pruning and defaulting use, the built-in ones, and OpenAPI
(`k8s.io/kube-openapi`).
"""
