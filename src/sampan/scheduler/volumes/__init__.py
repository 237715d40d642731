"""Code that the volume plug-ins share (compare `pkg/scheduler/framework/plugins/volumebinding`).

It covers the claims of a pod, which nodes can access a volume, and assumed objects. The plug-ins are in
`scheduler/plugins`; the relation of claims and volumes is in `machinery/volumes`.
"""
