"""The real kubelet of one node: its machine, where its pods come from, and what is done around their containers.

`kubelet` puts the parts together; `machine` finds the facts, `registration` makes the Node; `pod_provision` carries out
the steps of a pod, with `pulling` for images; `orphans` removes what nobody wants any more. The sync loop itself
(`sampan.kubelet.sync_loop`) is the same as that of hollow nodes.
"""
