"""The in-tree plug-ins, one file each (compare `pkg/scheduler/framework/plugins`), listed in
`sampan.scheduler.registry`.

A plug-in uses the node table and the pod, never another plug-in. Code that several plug-ins need (tolerations, node
selectors, amounts) is in a module beside this package. Every plug-in has a scalar oracle in its tests.
"""
