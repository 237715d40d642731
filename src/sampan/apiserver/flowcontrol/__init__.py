"""API Priority and Fairness: which requests are executed, queued or rejected under load.

`flow_control_controller` has the schemas and levels of a new cluster and follows the stored ones, `priority_level` has
the seats and queues of one level, `fairness` matches requests to flow schemas and levels. The counterpart is
`k8s.io/apiserver/pkg/util/flowcontrol`.
"""

from sampan.apiserver.flowcontrol.fairness import Fairness, Flow
from sampan.apiserver.flowcontrol.flow_control_controller import FlowControlController

__all__ = ["Fairness", "Flow", "FlowControlController"]
