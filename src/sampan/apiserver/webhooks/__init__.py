"""Calls of webhooks that objects in the cluster configure: admission webhooks and conversion webhooks.

`client` has the contract of their locations and sends a review to a URL or to a service of the cluster and
returns the response. The counterpart is `k8s.io/apiserver/pkg/util/webhook`.
"""
