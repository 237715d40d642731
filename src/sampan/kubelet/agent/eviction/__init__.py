"""Node-pressure eviction (`pkg/kubelet/eviction`): `rules` decides, `manager` observes the machine and evicts pods."""
