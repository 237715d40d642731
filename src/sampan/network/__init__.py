"""The network of a node: one folder per part.

`pods` connects pods to each other, to the node and to the world outside, on one machine. What services, policies and
DNS need comes beside it, each with packet rules in a table of its own: no part changes another's table.

What a part decides (addresses, texts of rules) is pure and apart from what it does to the machine. Nothing here knows
the API server's inside.
"""
