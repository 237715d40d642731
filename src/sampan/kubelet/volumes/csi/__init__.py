"""CSI volumes: external drivers called by gRPC on Unix sockets (`pkg/volume/csi`).

`registration` registers drivers and publishes them in the cluster, `client` calls a driver, `plugin` is the volume
plugin.
"""
