"""The runtime `cri`: containerd or CRI-O, over the container runtime interface (gRPC on its socket).

`cri.proto` is what is spoken, `client` speaks it; `messages` and `seen` translate, both pure; `streaming` connects to
processes and ports; `view` looks at what there is and follows what happens; `images` has the runtime's images;
`runtime` is the contract.
"""

from sampan.runtimes.cri.runtime import CriRuntime

__all__ = ["CriRuntime"]
