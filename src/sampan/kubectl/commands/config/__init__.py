"""`kubectl config`: show and change kubeconfig files (`cmd/config`)."""

from __future__ import annotations

from sampan.kubectl.command import KubectlGroup
from sampan.kubectl.commands.config.change_entries import set_cluster, set_context, set_credentials
from sampan.kubectl.commands.config.contexts import (
    current_context,
    delete_cluster,
    delete_context,
    delete_user,
    get_clusters,
    get_contexts,
    get_users,
    rename_context,
    use_context,
)
from sampan.kubectl.commands.config.properties import set_property, unset_property
from sampan.kubectl.commands.config.view import view

command = KubectlGroup(
    "config",
    help="""Show and change kubeconfig files.

The files are that of --kubeconfig, else those in $KUBECONFIG, else ~/.kube/config.""",
    commands=[
        current_context,
        delete_cluster,
        delete_context,
        delete_user,
        get_clusters,
        get_contexts,
        get_users,
        rename_context,
        set_property,
        set_cluster,
        set_context,
        set_credentials,
        unset_property,
        use_context,
        view,
    ],
)
