"""cronjob-controller: jobs by the calendar.

`due` says which time of a schedule has come, `decision` whether a job is to be started for it, `history` which finished
jobs have been kept long enough: all pure. `controller` acts on them. A job's name is made from its time, so that no
time is started twice.
"""

from sampan.controllers.batch.cronjob.controller import make

__all__ = ["make"]
