"""The runtime `cri`, which drives containerd or CRI-O through the Container Runtime Interface (gRPC on a socket).

It corresponds to `pkg/kubelet/kuberuntime` and `k8s.io/cri-client`. `cri.proto` defines the messages, `client` sends
them; `messages` builds requests and `seen` parses responses; `about` reads the status and configuration of the runtime;
`streaming` and `commands` implement exec, attach and port forwarding; `view` watches the state of the runtime; `usage`
reads resource usage; `images` manages images and `handing` loads missing ones into containerd; `connecting` configures
the network; `runtime` implements the runtime contract.
"""

from sampan.runtimes.cri.about import setting_of
from sampan.runtimes.cri.runtime import CriRuntime

__all__ = ["CriRuntime", "setting_of"]
