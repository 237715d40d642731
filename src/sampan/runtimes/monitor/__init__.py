"""The monitor: a small process, one per node, that keeps containers running while the kubelet is restarted.

It is the counterpart of containerd's shim and of conmon. It starts processes (or an OCI runtime that does), is their
parent, writes their output to log files, keeps their stdin open, records their exit codes, and lets clients attach. The
kubelet connects to it over a Unix socket and may disconnect at any time. The monitor uses only the standard library and
`sampan.host.durable_files`, so that it is small and starts quickly: `protocol` defines the messages, `logs` writes
output in the CRI log format, `process` is one process, `server` the event loop, `__main__` the program. Only `client`,
the kubelet's side, uses asyncio.
"""
