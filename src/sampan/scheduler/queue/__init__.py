"""Pending pods: the scheduling queue (compare `pkg/scheduler/backend/queue`)."""
