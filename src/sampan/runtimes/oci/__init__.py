"""The runtime `oci`, which drives crun or runc with Sampan's own images, overlay mounts, namespaces and monitor.

It corresponds to the part of containerd behind CRI. `spec` builds the OCI specification of a container without side
effects, with the system calls in `seccomp`; `users` resolves the user of an image and `cdi` adds devices. `images`
manages and mounts images; `sandbox` creates the namespaces of a pod; `binary` invokes crun or runc, for exec too;
`cgroups` reads resource usage; `runtime` implements the runtime contract.
"""

from sampan.runtimes.oci.runtime import OciRuntime

__all__ = ["OciRuntime"]
