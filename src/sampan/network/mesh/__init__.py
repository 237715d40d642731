"""The network between machines: how the pods of one machine reach those of another (the task of flannel or a cloud's
route controller).

Pure decisions are in `mesh_plan` (which routes and tunnel peers) and `config` (backends and MTUs); effects are in
`kernel` (what the machine can create) and `links` (netlink). `agent` connects them with the Node objects of the cluster
and keeps the key file of WireGuard. Pods of one machine are connected by `sampan.network.pods`.
"""
