"""The nftables mode of kube-proxy: one table per IP family (`pkg/proxy/nftables`).

`layout` (names and static rules of the table), `compiler` (services to rules, with the statements in `expressions` and
`families`), `table_state` (what is committed, and the update to new states of services) and `operations` (text and
netlink messages of changes) are pure. `proxy_table` writes and checks a table through `sampan.host.netlink.nftables`,
`table_sync` decides between a full and a partial sync, and `proxy` runs all of it for a node.
"""
