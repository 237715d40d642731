"""The names of the runtimes, as in `--runtime`."""

AUTO, CRI, DOCKER, HOLLOW, OCI, PROCESS = "auto", "cri", "docker", "hollow", "oci", "process"
RUNTIMES = (AUTO, CRI, DOCKER, OCI, PROCESS, HOLLOW)
