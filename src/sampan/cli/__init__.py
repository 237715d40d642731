"""The command line: `sampan` and its subcommands, one module each.

It may import every other package and corresponds to `cmd/` of Kubernetes. Subcommands
are imported when they are invoked, so that `sampan --help` and short commands start quickly.
"""
