"""What admission by others is configured with: webhooks, and policies of expressions with their bindings.

`matching` is which requests they are for, `clients` where a webhook is, `webhooks` both kinds of webhook configuration,
`policies` and `bindings` what both kinds of policy and of binding share. Nothing here admits anything.
"""
