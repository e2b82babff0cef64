"""HTTP in: the platform's events, from the socket into the store.

Read it in the order in which an event passes: `binding` and `serving` (the connection), `app` and
`endpoint` (who is heard), `framing`, `exchange` and `answers` (one request), `inbox` and `marks` (the
event). `limits` bounds it all, `secrets` guards it, `access` and `traffic` tell of it.

What is named here can be imported without a web framework.
"""

from __future__ import annotations

from .limits import Limits as WebhookLimits
from .secrets import Secrets as WebhookSecrets
from .secrets import webhook_address

__all__ = ["WebhookLimits", "WebhookSecrets", "webhook_address"]
