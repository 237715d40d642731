"""Validation of dynamic resource allocation: resource claims and templates, device classes and resource slices.

`names` validates names and lists with a maximum size, `claim_spec` the spec of a claim, `claim_status` its status
and who may write it, `resource_slices` the devices in slices and the policies of consumable capacity.
CEL expressions are checked by `sampan.machinery.cel.devices`. The counterpart is `pkg/apis/resource/validation`.
"""
