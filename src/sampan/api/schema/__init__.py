"""Schemas of API objects: the schema tree that patching, pruning and defaulting use, the trees of the built-in kinds,
and OpenAPI (`k8s.io/kube-openapi`)."""
