"""namespace-controller, which empties a terminating namespace and then finalizes it (`pkg/controller/namespace`).

`content` decides what is left and when to retry, and builds the status conditions; `controller` acts.
"""
