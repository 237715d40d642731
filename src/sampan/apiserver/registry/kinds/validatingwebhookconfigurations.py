"""ValidatingWebhookConfiguration: webhooks that validate requests on admission."""

from sampan.apiserver.registry.hooks.webhooks import WebhookStrategy
from sampan.apiserver.registry.served import Served

SERVED = Served(strategy=WebhookStrategy())
