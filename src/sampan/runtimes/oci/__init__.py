"""The runtime `oci`: crun or runc driven by Sampan itself, with its own images, overlays, namespaces and monitor.

`spec` makes the configuration of a container (pure), with `capabilities` and `seccomp` as data and `users` finding out
whom an image names and `cdi` adding devices; `images` has images, `rootfs` and `image_volumes` mount their files;
`sandbox` makes the namespaces of a pod; `binary` runs crun or runc; `commands` runs commands in containers; `usage` has
what they take, by `cgroups`; `runtime` is the contract.
"""

from sampan.runtimes.oci.runtime import OciRuntime

__all__ = ["OciRuntime"]
