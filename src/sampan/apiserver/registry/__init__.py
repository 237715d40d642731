"""The generic registry: what every kind has in common, and one file per kind for what differs.

`Store` carries out create, update and delete for any resource; a `Strategy` says only what is special about a kind
(defaults, preparation, validation, columns); `Registry` finds the store of a resource and makes it on first use.
"""
