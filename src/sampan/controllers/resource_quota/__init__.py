"""resourcequota-controller, which keeps the usage in the status of each ResourceQuota up to date.

The counterpart is `pkg/controller/resourcequota`.
"""
