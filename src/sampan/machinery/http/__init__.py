"""HTTP for all components: sessions that do not follow redirects, for requests; and authentication and authorization
delegated to the API server, for components that serve a port of their own (`k8s.io/apiserver/pkg/server/options`)."""
