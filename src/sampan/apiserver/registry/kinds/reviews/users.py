"""Conversion of users to UserInfo."""

from sampan.api.types.authentication_v1 import UserInfo
from sampan.apiserver.request.call import User


def user_info(user: User) -> UserInfo:
    extra = {key: list(values) for key, values in user.extra.items()}
    return UserInfo(username=user.name, uid=user.uid, groups=list(user.groups), extra=extra)
