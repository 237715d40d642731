"""Graceful node shutdown (`pkg/kubelet/nodeshutdown`): `logind` delays the shutdown of the machine, and `node_shutdown`
stops the pods of the node meanwhile."""
