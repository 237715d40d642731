"""Calls of webhooks.

`client` calls those that objects in the cluster configure, admission and conversion webhooks: it has the contract of
their locations, sends a review to a URL or to a service of the cluster and returns the response. Its connections are in
`connections`. `remote_webhook` calls those that files of the API server configure: token and access reviews, and audit
events. The counterpart is `k8s.io/apiserver/pkg/util/webhook`.
"""

from sampan.machinery.http import lean_aiohttp  # noqa: F401 - before anything here imports aiohttp
