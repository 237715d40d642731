"""Pending pods: the scheduling queue and the nominator (compare `pkg/scheduler/backend/queue`)."""
