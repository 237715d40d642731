"""One module or package per command, with the attribute `command`, and the table of all commands.

A module is imported when its command runs or its help is printed.
"""

GROUPS = {
    "Basic Commands (Beginner)": {
        "create": "Create objects from files, or by their properties.",
        "expose": "Expose pods, a deployment or a service as a new service.",
        "run": "Run an image in a pod.",
        "set": "Set properties of objects, such as images and environment variables.",
    },
    "Basic Commands (Intermediate)": {
        "explain": "Show the documentation of a resource type.",
        "get": "List objects or show one.",
        "edit": "Edit objects in an editor.",
        "delete": "Delete objects by name, label or file.",
    },
    "Deploy Commands": {
        "rollout": "Manage the rollout of a deployment, daemon set or stateful set.",
        "rolling-update": "Replace a replication controller step by step.",
        "scale": "Set the number of replicas.",
        "autoscale": "Create a horizontal pod autoscaler.",
    },
    "Cluster Management Commands": {
        "certificate": "Approve or deny certificate signing requests.",
        "cluster-info": "Show the addresses of the control plane and its services.",
        "top": "Show resource usage of nodes or pods.",
        "cordon": "Mark nodes as unschedulable.",
        "uncordon": "Mark nodes as schedulable.",
        "drain": "Evict the pods of nodes before maintenance.",
        "taint": "Update the taints of nodes.",
    },
    "Troubleshooting and Debugging Commands": {
        "describe": "Show the details of objects and their events.",
        "logs": "Print the logs of a container.",
        "attach": "Attach to the main process of a container.",
        "exec": "Run a command in a container.",
        "port-forward": "Forward local ports to a pod.",
        "proxy": "Run a proxy to the API server.",
        "cp": "Copy files to and from a container.",
        "auth": "Inspect authorization.",
        "debug": "Debug pods and nodes with additional containers.",
        "events": "List events.",
    },
    "Advanced Commands": {
        "diff": "Show what apply would change.",
        "apply": "Apply the configuration in files to objects.",
        "patch": "Change fields of objects.",
        "replace": "Replace objects by those in files.",
        "wait": "Wait for a condition of objects.",
        "kustomize": "Print the objects of a kustomization.",
    },
    "Settings Commands": {
        "label": "Update the labels of objects.",
        "annotate": "Update the annotations of objects.",
        "completion": "Print the completion script for a shell.",
    },
    "Other Commands": {
        "api-resources": "Print the resource types of the server.",
        "api-versions": "Print the API versions of the server.",
        "config": "Change kubeconfig files.",
        "kuberc": "Manage preferences in kuberc files.",
        "options": "List the global flags.",
        "plugin": "List plugins.",
        "version": "Print the versions of client and server.",
    },
}
"""The commands with their help texts, grouped as in the help of kubectl."""

COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
