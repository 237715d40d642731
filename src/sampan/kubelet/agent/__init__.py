"""The kubelet of one real node (`pkg/kubelet`): its machine, its pod sources, and the work around its containers.

`kubelet` assembles the parts; `machine` reads the properties of the machine, `registration` creates the Node;
`pod_provision` carries out the steps of a pod, with `pulling` for images; `orphans` removes what is left of unknown
pods. The sync loop (`sampan.kubelet.sync_loop`) is the same as that of hollow nodes.
"""
