"""The in-tree plug-ins, one file each (compare `pkg/scheduler/framework/plugins`), listed in `registry`.

A plug-in uses the node table and the pod, never another plug-in. What several plug-ins need is in `scheduler/cache`,
`scheduler/volumes`, `scheduler/devices` and `resource_allocation`. Every plug-in has a scalar oracle in its tests.
"""
