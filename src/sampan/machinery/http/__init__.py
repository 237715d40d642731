"""What components share to send HTTP requests and to serve a port of their own: sessions without redirects, and
authentication and authorization delegated to the API server (`k8s.io/apiserver/pkg/server/options`).
"""
