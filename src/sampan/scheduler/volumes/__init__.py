"""What the volume plug-ins share: the claims of a pod, which nodes reach a volume, and what is assumed but not written.

Plug-ins themselves are in `scheduler/plugins`; what claims and volumes mean to each other is in `machinery/volumes`.
"""
