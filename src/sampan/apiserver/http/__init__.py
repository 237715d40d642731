"""The HTTP layer: from aiohttp requests to calls, and from results to bytes on the wire. Its counterparts are the
secure serving and filters of `k8s.io/apiserver/pkg/server`."""

from sampan.machinery.http import lean_aiohttp  # noqa: F401 - before anything here imports aiohttp
