"""Conversations with the kernel over netlink: links, addresses, routes, connection tracking, nf_tables and WireGuard.

`constants` has the names of the kernel headers, `messages` the encoding of messages and attributes, `netlink_socket`
the exchange of messages. On these stand `routing` (rtnetlink), `traffic_control`, `conntrack`, `nftables` and
`wireguard`. They are written here rather than taken from pyroute2, whose import takes 13 MB of memory and 0.1 s of CPU
time in each process, and whose sockets take ten times as long for the messages of a pod. Of each kind of object only
what Sampan uses is here.

A socket belongs to the network namespace of the thread that opens it and stays there. Calls block.
"""
