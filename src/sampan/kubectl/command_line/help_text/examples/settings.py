"""The usage and the examples of the commands for settings, and of the other commands."""

HELP = {
    "label": (
        "[--overwrite] (-f FILE | TYPE NAME) KEY=VALUE ... [KEY-] [options]",
        """
# Add a label
label pod web tier=frontend

# Change a label that exists, and remove another one
label --overwrite pods web tier=backend old-
""",
    ),
    "annotate": (
        "[--overwrite] (-f FILE | TYPE NAME) KEY=VALUE ... [KEY-] [options]",
        """
# Add an annotation
annotate pod web description='my frontend'

# Remove an annotation of all pods
annotate pods --all description-
""",
    ),
    "completion": (
        "(bash | zsh | fish | powershell)",
        """
# Complete commands in this shell
|source <(sampan kubectl completion bash)

# Complete commands in every zsh
|sampan kubectl completion zsh > "${fpath[1]}/_kubectl"
""",
    ),
    "api-resources": (
        "[flags] [options]",
        """
# List the types that can be listed, without namespace
api-resources --verbs=list --namespaced=false -o name
""",
    ),
    "api-versions": (
        "",
        """
# List the versions
api-versions
""",
    ),
    "config": (
        "COMMAND [options]",
        """
# Choose another cluster
config use-context production

# Set the namespace of the current context
config set-context --current --namespace=team-a
""",
    ),
    "config current-context": (
        "[flags] [options]",
        """
# Print the name of the current context
config current-context
""",
    ),
    "config delete-cluster": (
        "NAME [options]",
        """
# Delete a cluster
config delete-cluster test
""",
    ),
    "config delete-context": (
        "NAME [options]",
        """
# Delete a context
config delete-context test
""",
    ),
    "config delete-user": (
        "NAME [options]",
        """
# Delete a user
config delete-user ann
""",
    ),
    "config get-clusters": (
        "[options]",
        """
# List the clusters
config get-clusters
""",
    ),
    "config get-contexts": (
        "[-o=name] [NAME ...] [options]",
        """
# List all contexts
config get-contexts

# Show one context
config get-contexts production
""",
    ),
    "config get-users": (
        "[options]",
        """
# List the users
config get-users
""",
    ),
    "config rename-context": (
        "OLD-NAME NEW-NAME [options]",
        """
# Rename a context
config rename-context old new
""",
    ),
    "config set": (
        "PROPERTY VALUE [options]",
        """
# Set the server of a cluster
config set clusters.test.server https://192.0.2.1:6443

# Store a certificate in the file
config set clusters.test.certificate-authority-data $(base64 -w0 ca.crt)
""",
    ),
    "config set-cluster": (
        "NAME [--server=URL] [--certificate-authority=FILE] [--insecure-skip-tls-verify=true] "
        "[--tls-server-name=NAME] [options]",
        """
# Create a cluster with its certificate authority
config set-cluster test --certificate-authority=ca.crt --embed-certs
""",
    ),
    "config set-context": (
        "(NAME | --current) [--cluster=NAME] [--user=NAME] [--namespace=NAMESPACE] [options]",
        """
# Set the user of a context
config set-context test --user=ann

# Set the namespace of the current context
config set-context --current --namespace=team-a
""",
    ),
    "config set-credentials": (
        "NAME [--client-certificate=FILE] [--client-key=FILE] [--token=TOKEN] [--username=USER] "
        "[--password=PASSWORD] [--auth-provider=NAME] [--auth-provider-arg=KEY=VALUE] [--exec-command=COMMAND] "
        "[--exec-api-version=VERSION] [--exec-arg=ARG] [--exec-env=KEY=VALUE] [options]",
        """
# Use a client certificate
config set-credentials ann --client-certificate=ann.crt --client-key=ann.key

# Use a program that prints credentials
config set-credentials ann --exec-command=login
""",
    ),
    "config unset": (
        "PROPERTY [options]",
        """
# Unset the current context
config unset current-context
""",
    ),
    "config use-context": (
        "NAME [options]",
        """
# Make a context the current one
config use-context production
""",
    ),
    "config view": (
        "[flags] [options]",
        """
# Show the merged configuration without secrets
config view

# Show only what the current context uses, with secrets
config view --minify --raw
""",
    ),
    "kuberc": (
        "COMMAND [options]",
        """
# Show the preferences
kuberc view
""",
    ),
    "kuberc set": (
        "--section (defaults | aliases | credentialplugin) [--command COMMAND] [options]",
        """
# Print more columns by default
kuberc set --section=defaults --command=get --option=output=wide

# Add an alias
kuberc set --section=aliases --name=getn --command=get --prependarg=nodes

# Run no credential plugins
kuberc set --section=credentialplugin --policy=DenyAll
""",
    ),
    "kuberc view": (
        "[options]",
        """
# Show the preferences as JSON
kuberc view -o json
""",
    ),
    "options": ("", ""),
    "plugin": (
        "COMMAND [options]",
        """
# List the plugins
plugin list
""",
    ),
    "plugin list": (
        "[options]",
        """
# Print only the names of the programs
plugin list --name-only
""",
    ),
    "version": (
        "[flags] [options]",
        """
# Print the versions of client and server
version

# Print the version of the client as JSON
version --client -o json
""",
    ),
}
