"""Explanations of scheduling: the verdict of every plug-in on every node, and the scores. Kubernetes has no
counterpart.

`inspection` runs the plug-ins on all nodes, `report` defines the response, `asking` explains a pod for one scheduler.
The last decision comes from the scheduler's history; the verdicts reflect the current state.
"""
