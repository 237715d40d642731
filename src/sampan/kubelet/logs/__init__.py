"""Container logs (`k8s.io/cri-client/pkg/logs`, `pkg/kubelet/logs`).

`lines` parses a line in CRI or Docker format and `shown` filters lines, both pure; `reading` reads and follows a file,
`watching` detects its changes, `source` selects the container instance, `rotation` rotates large files.
"""
