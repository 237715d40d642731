"""The pod network between machines.

`kernel` says which tunnels the machine can create.
"""
