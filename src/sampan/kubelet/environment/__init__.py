"""What surrounds a pod's containers: from the pod to everything that a runtime is told.

Pure functions, one concern each: `expansion` of $(VAR), `downward` (what a pod may know of itself), `variables`,
`service_variables`, `dns`, `hosts`, `hostnames`, `security`, `amounts` (limits for cgroups). `environment` reads the
secrets, maps and services that they need, and puts the configs together.
"""
