"""Connections to services that pass through the process of the proxy instead of the packet rules of the kernel.

`endpoint_sockets` chooses endpoints and connects to them, `localhost_ports` makes node ports reachable by localhost,
and `proxy` is a whole proxy for machines without packet rules.
"""
