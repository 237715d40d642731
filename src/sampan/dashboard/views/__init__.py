"""Views that the server computes for the page, each from objects that the person may read.

A view is a function of the request and of the person's API, served below /ui/api/clusters/CLUSTER/. `cluster_views` in
`view_table` has the table of all views. The size of each view's input and output is bounded.
"""
