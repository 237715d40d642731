"""The runtime `cri`: containerd or CRI-O, over the container runtime interface (gRPC on its socket).

`cri.proto` is what is spoken, `client` speaks it; `messages` and `seen` translate, both pure; `about` has what the
runtime says of itself; `streaming` and `commands` connect to processes and ports; `view` looks at what there is and
follows what happens; `usage` has what it takes; `images` has the runtime's images, `handing` gives containerd those
that it lacks; `connecting` sees to the network; `runtime` is the contract.
"""

from sampan.runtimes.cri.about import setting_of
from sampan.runtimes.cri.runtime import CriRuntime

__all__ = ["CriRuntime", "setting_of"]
