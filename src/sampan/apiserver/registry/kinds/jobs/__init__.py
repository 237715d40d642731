"""Job: runs pods until enough of them have succeeded.

`spec` validates the spec, `policies` the pod failure and success policies, `indexes` parses lists of completion
indexes, `selectors` generates the selector, `changes` validates updates, `status` status updates; `strategy` combines
them. Cron jobs use `spec` for their job template. The counterparts are `pkg/registry/batch/job` and
`pkg/apis/batch/validation`.
"""

from sampan.apiserver.registry.kinds.jobs.status import JobStatusStrategy
from sampan.apiserver.registry.kinds.jobs.strategy import JobStrategy
from sampan.apiserver.registry.served import Served

_strategy = JobStrategy()
SERVED = Served(strategy=_strategy, views={"status": JobStatusStrategy(_strategy)})
