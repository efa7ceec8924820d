"""Servers that can't be called at all: each is named, and costs seconds, not minutes."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from loadtest import line, socket_line
from loadtest.browser import Browser
from loadtest.line import Line, Refused
from loadtest.telephone import Telephone
from loadtest.webrtc import WebRtc


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's context with a certificate that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


@asynccontextmanager
async def mute(context: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    """Takes connections and says nothing; the port."""
    hold = asyncio.Event()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    running = await asyncio.start_server(keep, "127.0.0.1", 0, ssl=context)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        hold.set()
        running.close()
        await running.wait_closed()


@pytest.mark.parametrize("kind", [Telephone, Browser, WebRtc])
async def test_a_certificate_that_nobody_vouches_for_is_named(kind: type[Line], tmp_path: Path) -> None:
    async with mute(self_signed(tmp_path)) as port:
        with pytest.raises(Refused, match=r"(?i)certificate"):
            async with kind(f"https://127.0.0.1:{port}"):
                pass


@pytest.mark.parametrize("kind", [Telephone, Browser, WebRtc])
async def test_a_server_that_never_answers_is_given_up(kind: type[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "PATIENCE", 0.3)
    monkeypatch.setattr(socket_line, "PATIENCE", 0.3)
    async with mute() as port:
        with pytest.raises(Refused, match=r"0 s|timed out"):
            async with kind(f"http://127.0.0.1:{port}"):
                pass


@pytest.mark.parametrize("kind", [Telephone, Browser, WebRtc])
async def test_a_name_that_does_not_exist_is_named(kind: type[Line]) -> None:
    with pytest.raises(Refused, match=r"."):
        async with kind("http://no-such-host.invalid"):
            pass
