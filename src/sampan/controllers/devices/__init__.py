"""Controllers of dynamic resource allocation, resource.k8s.io (`pkg/controller/resourceclaim`,
`pkg/controller/devicetainteviction`).
"""
