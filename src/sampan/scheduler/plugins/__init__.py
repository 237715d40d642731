"""The in-tree plugins, one file each (compare `pkg/scheduler/framework/plugins`), listed in `registry`.

A plugin uses the node table and the pod, never another plugin. What several plugins need is in `scheduler/cache`,
`scheduler/volumes`, `scheduler/devices` and `resource_allocation`. Every plugin has a scalar oracle in its tests.
"""
