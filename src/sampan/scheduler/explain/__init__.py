"""Explanations of scheduling decisions: the result of every plugin on every node, and the scores.

Kubernetes has no counterpart. `explain` runs the plugins, `report` defines the response, `explain_endpoint` serves it.
The last decision comes from the scheduler's history; the results of plugins reflect the current state.
"""
