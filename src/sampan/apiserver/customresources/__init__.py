"""Custom resources: from CustomResourceDefinitions to resources that are served, and the objects of these.

`definitions` decodes and validates definitions and decides about their names. `controller` keeps the served resources,
the conditions and the finalizer in step with the stored definitions; `resources` declares the resources of a definition
with their behavior. `objects` is what strategy, validation, subresources and conversion of custom objects add to the
store; the registry uses it without knowing any definition, so this package imports neither of them. The counterpart is
`k8s.io/apiextensions-apiserver`.
"""
