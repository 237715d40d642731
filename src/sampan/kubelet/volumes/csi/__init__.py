"""Volumes of CSI drivers: programs of others that are spoken to by gRPC on Unix sockets.

`handler` takes drivers in as they come and go, `node_info` tells the cluster of them, `client` speaks to one,
`plugin` is the volume plug-in.
"""
