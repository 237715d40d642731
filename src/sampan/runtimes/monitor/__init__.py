"""The monitor: a small process, one per node, that holds what containers leave behind when the kubelet is restarted.

It begins processes (or runs an OCI runtime that does), is their parent, writes their output to log files, keeps their
input open, notes their exit codes, and lets others attach. The kubelet talks to it over a Unix socket and may come and
go. It is written with the standard library alone, so that it is small and starts at once: `protocol` is what is said,
`logs` writes output in CRI's form, `process` is one process, `server` the loop, `__main__` the program; `client`, for
the kubelet's side, is the only part that knows asyncio.
"""
