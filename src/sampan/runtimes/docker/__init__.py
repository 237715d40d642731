"""The runtime `docker`, which drives the Docker Engine over its socket, as dockershim and cri-dockerd do.

A pod is a pause container, which owns the namespaces of the pod, and containers that join them. `client` is the HTTP
client; `messages` builds request bodies and parses responses; `streaming` implements exec and attach; `logs` converts
container logs to the CRI log format; `view` watches the state of the engine and its resource usage; `images` manages
images; `runtime` implements the runtime contract.
"""

from sampan.runtimes.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
