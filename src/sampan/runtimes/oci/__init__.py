"""The runtime `oci`: crun or runc driven by Sampan itself, with its own images, overlays, namespaces and monitor.

`spec` makes the configuration of a container (pure), with `capabilities` and `seccomp` as data and `users` finding out
whom an image names; `rootfs` mounts its files; `sandbox` makes the namespaces of a pod; `records` keeps on disk what
there is; `binary` runs crun or runc; `runtime` is the contract.
"""

from sampan.runtimes.oci.runtime import OciRuntime

__all__ = ["OciRuntime"]
