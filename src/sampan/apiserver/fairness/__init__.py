"""API priority and fairness: which requests are served when there are too many, and which wait or are refused.

`defaults` are the schemas and levels of a new cluster, `flows` says which schema and level a call belongs to, `level`
keeps the seats and queues of one level, `fairness` puts them together, `feed` follows the stored objects.
"""

from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.fairness.feed import FairnessFeed
from sampan.apiserver.fairness.flows import Flow

__all__ = ["Fairness", "FairnessFeed", "Flow"]
