"""ValidatingWebhookConfiguration: webhooks that validate requests on admission."""

from sampan.apiserver.registry.admission_configs.webhooks import WebhookStrategy
from sampan.apiserver.registry.behavior import ResourceBehavior

BEHAVIOR = ResourceBehavior(strategy=WebhookStrategy())
