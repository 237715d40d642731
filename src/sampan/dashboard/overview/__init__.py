"""The overview of a cluster: nodes, workloads, problems first, recent warnings, and the health of its components.

`objects` has the parts of objects that count, `problems` finds what is wrong with one, `state` sums them up, `follower`
keeps the objects of a kind up to date, and `subscription` reads about the store and the network and sends the overview
to a page. Everything comes from what the person may read; what is forbidden is marked as such.
"""
