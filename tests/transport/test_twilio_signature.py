"""Twilio's signature, by the example of Twilio's own documentation, and who may open a stream by it."""

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer
from pydantic import SecretStr

from transport.twilio_signature import signature, signed
from voice.app import Service
from voice.config import Settings, TwilioConfig
from voice.http import build
from voice.observe import Observer

TOKEN = "12345"


def test_the_documented_example_is_signed_as_documented() -> None:
    fields = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert signature(url, fields, TOKEN) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


def test_a_slash_at_the_end_makes_no_difference_and_all_else_does() -> None:
    good = signature("wss://voice.example.net/twilio", {}, TOKEN)
    assert signed("wss://voice.example.net/twilio", good, TOKEN)
    assert signed("wss://voice.example.net/twilio/", good, TOKEN)
    assert not signed("wss://voice.example.net/other", good, TOKEN)
    assert not signed("wss://voice.example.net/twilio", good, "another")
    assert not signed("wss://voice.example.net/twilio", "", TOKEN)
    assert not signed("wss://voice.example.net/twilio", "ä", TOKEN)


@pytest.mark.parametrize(("shown", "status"), [(None, 403), ("nonsense", 403), ("good", 503)])
async def test_only_a_signed_request_may_open_a_stream(shown: str | None, status: int) -> None:
    settings = Settings(twilio=TwilioConfig(auth_token=SecretStr(TOKEN), url="wss://voice.example.net/twilio"))
    headers = {}
    if shown is not None:
        right = signature("wss://voice.example.net/twilio", {}, TOKEN)
        headers = {"X-Twilio-Signature": right if shown == "good" else shown}
    async with asyncio.TaskGroup() as tasks:
        service = Service(settings, Observer())  # not ready: whoever may come in is told so with 503
        async with (
            TestClient(TestServer(build(service, tasks))) as client,
            client.get("/twilio", headers=headers) as answer,
        ):
            assert answer.status == status
