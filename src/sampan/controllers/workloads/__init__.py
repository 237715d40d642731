"""Controllers of what runs for as long as it is wanted: replication controllers, replicasets, deployments, daemonsets,
statefulsets. Each keeps pods, or what keeps pods, as its object says; what they share is in `controllers.ownership`.
"""
