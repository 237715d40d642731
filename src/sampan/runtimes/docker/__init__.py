"""The runtime `docker`: the Docker Engine, over its socket.

A pod is a pause container, which owns the pod's namespaces, and containers that join them. `client` speaks to the
engine; `messages` and `seen` translate, both pure; `streaming` and `commands` connect to processes; `logs`
and `log_copies` write their output down in the form that the kubelet reads; `view` looks at what there is and follows
what happens; `usage` has what it takes; `images` has the engine's images; `runtime` is the contract.
"""

from sampan.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
