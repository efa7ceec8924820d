from pathlib import Path

import pytest

from budget.errors import ConfigError
from voice.cli import build_parser, main
from voice.config import check_exposure, is_loopback, load_settings


def flags(*arguments: str):
    parser, sources = build_parser()
    return sources["serve"](parsed_args=parser.parse_args(["serve", *arguments]))


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "halfsecond.toml"
    file.write_text("port = 1\n[llm]\ntemperature = 0.1\nmax_tokens = 11\n[vad]\nsilence = 0.7\n")
    monkeypatch.setenv("HALFSECOND_LLM__TEMPERATURE", "0.2")
    monkeypatch.setenv("HALFSECOND_LLM__MAX_TOKENS", "22")
    settings = load_settings(file, flags("--llm.temperature", "0.3"))
    assert (settings.port, settings.vad.silence) == (1, 0.7)
    assert (settings.llm.temperature, settings.llm.max_tokens) == (0.3, 22)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1", "prot"),
        ("port = 99999", "port"),
        ('[tts]\nengine = "festival"', "tts.engine"),
        ("[vad]\nsilence = -1", "vad.silence"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "halfsecond.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=named):
        load_settings(file)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[llm]\nengine = "openai"', "llm.base_url"),
        ("[llm]\ncard_memory = 8.0", "llm.card_memory"),
        ('[llm]\nengine = "openai"\nbase_url = "http://127.0.0.1:8000/v1"\ngpu_layers = 9', "llm.gpu_layers"),
        ("[llm]\nmax_tokens = 900", "llm.max_tokens 900"),
        ("[vad]\nshortest = 1.0", "vad.shortest"),
        ("[admission]\nreserved = 4", "admission.reserved 4"),
        ("[admission]\ncapacity = 5", "admission.capacity 5"),
        ('[asr]\nsmaller = "whisper-base"', "asr.smaller"),
        ('[tts]\nruntime = "torch"', "tts.runtime torch"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_and_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "halfsecond.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=named):
        load_settings(file)


def test_all_contradictions_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        load_settings(None, admission={"reserved": 9, "capacity": 9})
    assert "admission.reserved" in str(error.value) and "admission.capacity" in str(error.value)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(ConfigError, match="no configuration file"):
        load_settings(Path("/nowhere/halfsecond.toml"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.net"])
def test_no_address_but_loopback_without_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="refusing to listen"):
        check_exposure(load_settings(None, host=host))
    check_exposure(load_settings(None, host=host, api_key="secret"))


def test_the_command_refuses_and_says_why(capsys: pytest.CaptureFixture) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "without an API key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("127.9.9.9", True),
        ("10.0.0.1", False),
        ("evil.test", False),
    ],
)
def test_what_loopback_is(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_keys_are_not_shown() -> None:
    settings = load_settings(None, api_key="hush-hush")
    assert "hush-hush" not in repr(settings)
    assert "hush-hush" not in settings.model_dump_json()


def test_help_teaches(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out
    for word in ("--llm.base_url", "--tts.voice", "seconds of silence that end a turn", "HALFSECOND_LLM__BASE_URL"):
        assert word in text
