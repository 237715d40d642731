"""The kubelet of one real node (`pkg/kubelet`): its machine, its pod sources, and the work around its containers.

`services` and `components` create the parts, `kubelet` runs them. Pods come from `pod_sources`; `real_pod_lifecycle`
carries out the steps of a pod for the sync loop (`kubelet.sync_loop`), which real and hollow nodes share.
`node_status_updater` registers the node; `eviction`, `garbage_collection` and `shutdown` protect it.
"""
