"""The plug-ins, one file each; `sampan.scheduler.registry` is the table of them.

A plug-in knows the node table and the pod, never another plug-in. What two of them need (tolerations, node selectors,
amounts) is in a module beside this package. Every one has a scalar oracle in its tests.
"""
