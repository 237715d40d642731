"""DNS of the cluster, served on every node: counterpart of CoreDNS with its plugins kubernetes, forward and cache.

Pure: `wire` (the format of messages), `records` (the records of Services and EndpointSlices), `record_table` (all
record sets as ready-made bytes, kept up to date by informers), `responder` (the decision about a query), `upstreams`
(the choice of upstream resolvers) and `upstream_response` (what is cached of their responses). Effects: `forwarder`
(cache and upstream resolvers), `server` (sockets), `status_port` (health and metrics), `publication` (the Service
kube-dns and the EndpointSlices of a node), `announcement` (servers of joined nodes). `cluster_dns` combines them to the
DNS servers of the nodes of a process.
"""
