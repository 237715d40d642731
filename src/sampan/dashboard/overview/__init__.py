"""The overview of a cluster: nodes, workloads, problems first, recent warnings, and the health of its components.

`objects` has the fields of objects that the overview needs, `problems` finds what is wrong with an object, `state` sums
the objects up, and `follower` keeps the objects of a kind up to date. `subscription` reads about the store and the
network, and sends the overview to a page. The overview contains only objects that the person may read, and names the
kinds that are forbidden.
"""
