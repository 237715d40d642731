"""Authentication: one authenticator per file, tried in order. The counterparts are
`k8s.io/apiserver/pkg/authentication` and `pkg/kubeapiserver/authenticator`."""
