"""cronjob-controller, which creates jobs on a schedule (`pkg/controller/cronjob`).

The pure part is `due` (the most recent scheduled time) and `decision` (whether to start a job for it, the job, and
which finished jobs exceed the history limits). `controller` acts on them. A job's name is derived from its scheduled
time, so that no time is started twice.
"""
