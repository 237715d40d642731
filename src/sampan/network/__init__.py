"""The network of a node, with one package per part.

`pods` connects the pods of one machine to each other, to the node and to the outside; its counterpart is a CNI plug-in
such as `bridge`. Parts for services, network policies and DNS belong beside it, each with its own nftables table: no
part changes the table of another. Decisions (addresses, text of rules) are pure and separate from changes to the
machine. Nothing here depends on internals of the API server.
"""
