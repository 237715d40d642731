"""Job: pods that run until enough of them have succeeded.

`spec` checks what a job says of itself, `policies` when it counts as failed or successful, `indexes` reads lists of its
pods' numbers, `selectors` is about the selector that the server makes for it, `changes` about what may change of it,
`status` about its status; `strategy` puts them together. Cron jobs use `spec` for their templates.
"""

from sampan.apiserver.registry.kinds.jobs.status import JobStatusStrategy
from sampan.apiserver.registry.kinds.jobs.strategy import JobStrategy
from sampan.apiserver.registry.served import Served

_strategy = JobStrategy()
SERVED = Served(strategy=_strategy, views={"status": JobStatusStrategy(_strategy)})
