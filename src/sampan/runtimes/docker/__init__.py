"""The runtime `docker`: the Docker Engine, over its socket.

A pod is a pause container, which owns the pod's namespaces, and containers that join them. `client` speaks to the
engine; `messages` and `seen` translate, both pure; `streaming` connects to processes; `logs` writes their output down
in the form that the kubelet reads; `runtime` is the contract.
"""

from sampan.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
