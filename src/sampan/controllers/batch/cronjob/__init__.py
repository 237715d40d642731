"""cronjob-controller, which creates jobs on a schedule (`pkg/controller/cronjob`).

The pure part is `due` (the most recent scheduled time), `decision` (whether to start a job for it) and `jobs` (the job
objects, and which finished ones exceed the history limits). `controller` acts on them. A job's name is derived from its
scheduled time, so that no time is started twice.
"""

from sampan.controllers.batch.cronjob.controller import make

__all__ = ["make"]
