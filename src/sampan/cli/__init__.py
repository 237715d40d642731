"""The command line: `sampan` and its subcommands, one file each. A composition root: may import everything.

Subcommands are imported when they are called, so that `sampan --help` and quick commands stay quick.
"""
