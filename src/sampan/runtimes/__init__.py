"""What runs a node's pods: one folder per runtime, all with the contract of `contract`.

A runtime knows pods, sandboxes, containers and images of one node. It does not know the API server: what is to run, and
when to try again, is the kubelet's business.
"""
