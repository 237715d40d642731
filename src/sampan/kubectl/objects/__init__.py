"""The objects of a command: which ones the arguments and files name, and how they are written and deleted.

The counterparts are `cli-runtime/pkg/resource` and `kubectl/pkg/polymorphichelpers`.
"""
