"""PodSecurity: pods keep to the security standard that their namespace's labels name.

`labels` reads the labels, `baseline` and `restricted` are the checks of the two standards, `standards` has them by
version (all pure), `plugin` is the shell.
"""

from sampan.apiserver.admission.pod_security.plugin import PodSecurity

__all__ = ["PodSecurity"]
