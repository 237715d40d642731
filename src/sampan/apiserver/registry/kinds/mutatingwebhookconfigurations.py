"""MutatingWebhookConfiguration: who else may change what is written."""

from sampan.apiserver.registry.hooks.webhooks import WebhookStrategy
from sampan.apiserver.registry.served import Served

SERVED = Served(strategy=WebhookStrategy())
