"""Controllers of work that ends: jobs, cron jobs, and the removal of finished jobs."""
