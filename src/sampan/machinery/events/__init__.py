"""Events about objects, as shown by `kubectl describe`: recorded asynchronously, aggregated and rate-limited.

`correlator` decides what to do with an event (without I/O), `recorder` sends it. The Kubernetes counterpart is
client-go's `tools/record`.
"""

from sampan.machinery.events.correlator import Correlator, CorrelatorConfig
from sampan.machinery.events.recorder import NORMAL, WARNING, EventRecorder

__all__ = ["NORMAL", "WARNING", "Correlator", "CorrelatorConfig", "EventRecorder"]
