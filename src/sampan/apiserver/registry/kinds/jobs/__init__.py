"""Job: runs pods until enough of them have succeeded.

`spec` validates the spec, its policies and its updates, `status` status updates and lists of completion indexes;
`strategy` sets defaults and generates the selector. Cron jobs use `spec` for their job template. The counterparts are
`pkg/registry/batch/job` and `pkg/apis/batch/validation`.
"""

from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.jobs.status import JobStatusStrategy
from sampan.apiserver.registry.kinds.jobs.strategy import JobStrategy

_strategy = JobStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": JobStatusStrategy(_strategy)})
