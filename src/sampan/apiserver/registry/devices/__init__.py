"""Validation of dynamic resource allocation: resource claims and templates, device classes and resource slices.

`naming` validates names, `collections` lists with a maximum size, `requests` the spec of a claim, `configurations`
selectors and driver parameters, `allocations` the status of a claim, `publishing` the devices in slices, `policies` the
policies of consumable capacity. CEL expressions are checked by `sampan.machinery.cel.devices`. The counterpart is
`pkg/apis/resource/validation`.
"""
