"""Code that the volume plugins share (compare `pkg/scheduler/framework/plugins/volumebinding`).

`pod_volume_claims` has the claims of a pod and the nodes that can provide volumes for them, `volume_binder` the
bindings that are assumed and written, `attached_volumes` the counts of CSI volumes. The plugins are in
`scheduler/plugins`; the relation of claims and volumes is in `machinery/volumes.py`.
"""
