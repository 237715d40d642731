"""Devices that pods claim: claims and templates of claims, classes, and slices in which drivers publish devices.

`naming` checks names of all kinds, `collections` lists with bounds, `requests` what a claim asks for, `configurations`
parameters for drivers, `allocations` the status of a claim, `publishing` devices in slices, `policies` how their
capacity is shared out. Expressions are checked by `sampan.machinery.cel.devices`.
"""
