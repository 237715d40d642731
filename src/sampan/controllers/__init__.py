"""The control loops: each watches a part of the cluster's state and moves it towards what is desired.

One file per controller, a folder where one is large: pure functions that decide, and a thin shell with `name`,
`watches` and `reconcile`. `manager` has the table of them and starts those that are asked for. May import `sampan.api`
and `sampan.machinery`, nothing else.
"""
