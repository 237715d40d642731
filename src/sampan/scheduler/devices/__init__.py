"""Dynamic resources: which devices there are for a node, which of them suit a claim, and how claims share them out.

`pools` and `allocator` decide (pure); the plug-in DynamicResources reads and writes claims.
"""
