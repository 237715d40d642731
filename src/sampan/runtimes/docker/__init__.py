"""The runtime `docker`, which drives the Docker Engine over its socket, as dockershim and cri-dockerd do.

A pod is a pause container, which owns the namespaces of the pod, and containers that join them. `client` is the HTTP
client; `messages` builds request bodies and `seen` parses responses; `streaming` and `commands` implement exec and
attach; `logs` and `log_copies` convert container logs to the CRI log format; `view` watches the state of the engine;
`usage` reads resource usage; `images` manages images; `runtime` implements the runtime contract.
"""

from sampan.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
