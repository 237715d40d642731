"""The machine that a cluster runs on: its abilities and what it lacks, locks on what its clusters share, its network.

Nothing here depends on a single cluster or node.
"""
