"""Role-based access control: the rules of users, the authorizer, and the escalation check, by which users cannot grant
permissions that they do not have. The default roles are data, in `bootstrap.json`. The counterparts are
`plugin/pkg/auth/authorizer/rbac` and `pkg/registry/rbac`."""

from sampan.apiserver.authz.rbac.authorizer import RbacAuthorizer, RbacIndex

__all__ = ["RbacAuthorizer", "RbacIndex"]
