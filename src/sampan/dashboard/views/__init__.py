"""Views that the server computes for the page, each from what the person may read.

A view is a function of the request and of the person's API, served below /ui/api/clusters/CLUSTER/. `ClusterViews` has
the table of them. Input and output of each are bounded.
"""
