"""The flags of `sampan up` and of the components: tables of rows, and their conversion to configurations.

A module has the flags of one component or of one of its concerns. `flag_table` makes options of click and fields of a
configuration from the rows; `parsers` has the functions that check values, with errors that name the flag. Commands,
processes and connections do not belong here. The counterpart in Kubernetes is `cmd/*/app/options`.
"""
