"""The machine that a cluster runs on: its abilities and shortcomings, locks on resources that its clusters share, and
its network.

Nothing here depends on a single cluster or node.
"""
