"""Twilio's signature of a request: HMAC-SHA1 of its URL and its form's fields (Twilio's "Validating requests").

A Media Stream's WebSocket is signed as a request without fields, by the URL that its TwiML names.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

HEADER = "X-Twilio-Signature"


def signature(url: str, fields: Mapping[str, str], token: str) -> str:
    """What the header must be; `token` is the account's auth token."""
    signed = url + "".join(name + fields[name] for name in sorted(fields))
    return base64.b64encode(hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()).decode()


def signed(url: str, shown: str, token: str) -> bool:
    """Whether a WebSocket's request for `url` is Twilio's, which may or may not write a slash at its end."""
    bare = url.removesuffix("/")
    wanted = [signature(form, {}, token) for form in (bare, bare + "/")]
    return any(hmac.compare_digest(one.encode(), shown.encode()) for one in wanted)
