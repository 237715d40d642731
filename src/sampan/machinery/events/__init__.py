"""Events about objects, as people see them in `kubectl describe`: recorded without waiting, counted, bounded.

`correlator` decides what becomes of an event (pure), `recorder` sends it.
"""

from sampan.machinery.events.correlator import Correlator, CorrelatorConfig
from sampan.machinery.events.recorder import NORMAL, WARNING, EventRecorder

__all__ = ["NORMAL", "WARNING", "Correlator", "CorrelatorConfig", "EventRecorder"]
