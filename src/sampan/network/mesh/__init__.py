"""The network between machines: how the pods of one machine reach those of another (the task of flannel or a cloud's
route controller).

`mesh_plan` decides which routes and tunnel peers there are, and is pure; `config` has the backends that the machine can
use and their MTUs; effects are in `links` (netlink). `agent` connects them with the Node objects of the cluster and
keeps the key file of WireGuard. Pods of one machine are connected by `sampan.network.pods`.
"""
