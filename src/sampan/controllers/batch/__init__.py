"""Controllers of workloads that run to completion: Job, CronJob, and the TTL-based removal of finished jobs."""
