"""Role-based access control: rules, who is granted them, the authorizer that goes by them, and the check that nobody
grants what they do not have. The roles that every cluster has are data, in `bootstrap`."""

from sampan.apiserver.authz.rbac.authorizer import RbacAuthorizer
from sampan.apiserver.authz.rbac.feed import RbacFeed
from sampan.apiserver.authz.rbac.index import RbacIndex

__all__ = ["RbacAuthorizer", "RbacFeed", "RbacIndex"]
