"""Who may connect: keys compared in constant time, origins and hosts checked, before anything is read."""

import hmac
from urllib.parse import urlsplit

from aiohttp import web

from transport.twilio_signature import HEADER, signed
from voice.config import Settings, is_loopback

_PROTOCOL_KEY = "openai-insecure-api-key."


def presented_key(request: web.Request) -> str:
    """The key a client shows: a bearer token, or for browsers' WebSockets the sub-protocol that OpenAI uses."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    for protocol in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        if protocol.strip().startswith(_PROTOCOL_KEY):
            return protocol.strip().removeprefix(_PROTOCOL_KEY)
    return ""


def key_is_good(settings: Settings, key: str) -> bool:
    """Whether the key is the operator's; always, if the operator set none."""
    wanted = settings.api_key.get_secret_value()
    return not wanted or hmac.compare_digest(wanted.encode(), key.encode())


def twilio_signed(settings: Settings, request: web.Request) -> bool | None:
    """Whether Twilio signed the request for this stream; None if the operator gave no token to know it by."""
    token = settings.twilio.auth_token.get_secret_value()
    if not token:
        return None
    url = settings.twilio.url or f"wss://{request.host}{request.path_qs}"
    return signed(url, request.headers.get(HEADER, ""), token)


def origin_is_good(settings: Settings, request: web.Request) -> bool:
    """Whether a browser's page may connect: our own, or one the operator named.

    Without this any web page could use a service on the visitor's own machine. On loopback the Host
    header must be a loopback name too, since a hostile name can be made to resolve to 127.0.0.1.
    """
    keyless = is_loopback(settings.host) and not settings.api_key.get_secret_value()
    if keyless and not is_loopback(urlsplit(f"//{request.host}").hostname or ""):
        return False
    origin = request.headers.get("Origin")
    if origin is None or origin in settings.allowed_origins:
        return True
    return urlsplit(origin).netloc == request.host
