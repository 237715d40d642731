"""The system's own word that the machine goes down, and the time that it gives before that: systemd-logind, by D-Bus.

`wire` is the form of messages, `bus` a connection, `login` what logind is asked and tells, `watch` what the kubelet
makes of it. Nothing here knows of pods.
"""

from sampan.kubelet.agent.logind.watch import ShutdownWatch

__all__ = ["ShutdownWatch"]
