"""Conversion of users to the UserInfo of reviews."""

from sampan.api.types import authentication_v1
from sampan.apiserver.request.call import UserInfo


def user_info(user: UserInfo) -> authentication_v1.UserInfo:
    extra = {key: list(values) for key, values in user.extra.items()}
    return authentication_v1.UserInfo(username=user.name, uid=user.uid, groups=list(user.groups), extra=extra)
