"""API Priority and Fairness: which requests are executed, queued or rejected under load.

`defaults` are the schemas and levels of a new cluster, `flows` matches requests to flow schemas, `level` has the seats
and queues of one priority level, `fairness` combines them, `feed` follows the stored objects. The counterpart is
`k8s.io/apiserver/pkg/util/flowcontrol`.
"""

from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.fairness.feed import FairnessFeed
from sampan.apiserver.fairness.flows import Flow

__all__ = ["Fairness", "FairnessFeed", "Flow"]
