"""The configuration of the API server: the options of its process, configuration files and their reload.

The counterparts are `k8s.io/apiserver/pkg/server/options` and `k8s.io/apiserver/pkg/server/dynamiccertificates`.
"""
