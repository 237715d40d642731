"""Dynamic resources: which devices there are for a node, which of them suit a claim, and how claims share them out.

What there is: slices (`stock`) make pools (`pools`), and a node sees some of them (`views`). What is taken: `ledger`.
What is asked for: `wants`, with selectors, capacity, constraints and taints in a file each; extended resources that
device classes serve become a claim (`classes`, `extended`). `search` decides for one node, `answers` keeps that for
all nodes and pods that ask the same, `results` says it in the words of the API. `binding` and `readiness` write claims
and wait for devices; the plug-in DynamicResources puts it all together.
"""
