"""The command line of kubectl: command classes, flags and their values, help texts, and preferences of kuberc files.

The counterparts are `spf13/cobra` and `pflag`, `cli-runtime/pkg/genericclioptions` and `kubectl/pkg/kuberc`. Nothing
here connects to a server.
"""
