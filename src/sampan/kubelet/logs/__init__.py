"""Container logs (`k8s.io/cri-client/pkg/logs`, `pkg/kubelet/logs`).

`lines` parses and filters lines in CRI or Docker format; `reader` reads and follows a file; `rotation` rotates large
files.
"""
