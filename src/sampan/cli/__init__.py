"""The command line: `sampan` and its subcommands, one module each.

It is the composition root, which may import every other package; it corresponds to `cmd/` of Kubernetes. Subcommands
are imported when they are invoked, so that `sampan --help` and short commands start quickly.
"""
