"""Connection tracking of the kernel, as far as kube-proxy changes it (`pkg/proxy/conntrack`).

`stale_flows` decides which UDP flows must be deleted, `table` reads and changes the table of the kernel, and `sysctls`
sets its limits.
"""
