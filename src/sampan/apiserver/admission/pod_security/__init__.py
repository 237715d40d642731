"""PodSecurity: enforces the Pod Security Standard that the labels of a namespace select.

`policy` reads the labels and the configuration, `baseline` and `restricted` are the checks of the two standards, which
return `violations`, `standards` selects them by version (all pure), `plugin` is the admission plugin. The counterpart
is `k8s.io/pod-security-admission`.
"""

from sampan.apiserver.admission.pod_security.plugin import PodSecurity

__all__ = ["PodSecurity"]
