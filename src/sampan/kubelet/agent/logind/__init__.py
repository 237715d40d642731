"""Shutdown inhibitor locks of systemd-logind over D-Bus (`pkg/kubelet/nodeshutdown/systemd`).

`wire` is the message format, `bus` a connection, `login` the interface of logind, `watch` its use by the kubelet. This
package knows nothing of pods.
"""

from sampan.kubelet.agent.logind.watch import ShutdownWatch

__all__ = ["ShutdownWatch"]
