"""Volumes of CSI drivers: programs of others that are spoken to by gRPC on Unix sockets.

`registration` finds drivers as they come and go, `node_info` tells the cluster of them, `client` speaks to one,
`plugin` is the volume plug-in.
"""
