"""Why a pod is where it is, or nowhere: every plug-in's verdict on every node, and the scores.

`inspection` asks the plug-ins about all nodes, `report` is what is told of it, `asking` answers for one scheduler. The
decision that was made is in the scheduler's history; the verdicts are those of now.
"""
