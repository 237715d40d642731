"""Controllers of workloads that run to completion: Job, CronJob, and the TTL-based removal of finished jobs.

The counterparts are `pkg/controller/job`, `cronjob` and `ttlafterfinished`.
"""
