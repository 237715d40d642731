"""A cluster on this machine as commands see it: its data directory, its process, and what a start reports.

`cluster_dir` is the data directory with the files about the running process; `server_process`, `detached_process` and
`rootless` are the ways in which the process runs. The components that run in it are in `sampan.cluster`, the flags of
`sampan up` in `sampan.cli.flags`. Subcommands do not belong here.
"""
