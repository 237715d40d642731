"""The runtime `cri`, which drives containerd or CRI-O through the Container Runtime Interface (gRPC on a socket).

It corresponds to `pkg/kubelet/kuberuntime` and `k8s.io/cri-client`. `cri.proto` defines the messages, `client` sends
them; `messages` builds requests and parses responses; `runtime_status` reads the status and configuration of the
runtime and configures its network; `streaming` implements exec, attach and port forwarding; `view` watches the state of
the runtime and reads resource usage; `images` manages images, with `containerd_images` for operations that only
containerd's own API has; `runtime` implements the runtime contract.
"""

from sampan.runtimes.cri.runtime import CriRuntime
from sampan.runtimes.cri.runtime_status import settings_of

__all__ = ["CriRuntime", "settings_of"]
