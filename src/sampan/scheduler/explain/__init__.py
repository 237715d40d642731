"""Explanations of scheduling decisions: the result of every plug-in on every node, and the scores.

Kubernetes has no counterpart. `explain` runs the plug-ins, `report` defines the response, `explain_endpoint` serves it.
The last decision comes from the scheduler's history; the results of plug-ins reflect the current state.
"""
