"""The `halfsecond` command."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pydantic_settings import CliSettingsSource

from budget.errors import HalfsecondError
from loadtest import command as loadtest
from voice import plan_command
from voice.config import Settings, load_settings

_DESCRIPTION = """\
Self-hosted real-time voice AI: callers speak over WebRTC, a WebSocket or a
telephone line, and are answered by voice inside half a second, on one machine."""

_EXAMPLES = """\
examples:
  halfsecond models pull              fetch the default models, once
  halfsecond doctor                   check and measure this machine
  halfsecond serve                    then open http://127.0.0.1:8080/ and talk
  halfsecond serve --sip              and take telephone calls on port 5060
  halfsecond loadtest --calls 1 2 4   measure a running service
  halfsecond plan --device rtx4090    simulate another machine
  halfsecond serve --tts.engine kokoro --tts.voice af_heart
  HALFSECOND_API_KEY=... halfsecond serve --host 0.0.0.0

Every setting is a flag (--llm.base_url), an environment variable
(HALFSECOND_LLM__BASE_URL) and a line of the file given by --config
([llm] base_url = "..."). Flags win over the environment, that over the file."""


def build_parser() -> tuple[argparse.ArgumentParser, dict[str, CliSettingsSource[argparse.ArgumentParser]]]:
    """The command's parser, and for each subcommand that takes settings the source of its flags."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("halfsecond", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=plain)
    parser.add_argument("--version", action="version", version=f"halfsecond {version('halfsecond')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    sources: dict[str, CliSettingsSource[argparse.ArgumentParser]] = {}

    def with_settings(name: str, sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--config", type=Path, metavar="FILE", help="TOML file with any of the settings below")
        sources[name] = CliSettingsSource(Settings, root_parser=sub, cli_hide_none_type=True, cli_avoid_json=True)

    serve = commands.add_parser("serve", help="load the models and take calls", formatter_class=plain, epilog=_EXAMPLES)
    with_settings("serve", serve)
    doctor = commands.add_parser(
        "doctor", help="check this machine and measure how many threads each engine should use"
    )
    with_settings("doctor", doctor)
    load = commands.add_parser(
        "loadtest",
        help="call a server as real clients do: how late it answers, how many calls it carries",
        formatter_class=plain,
        description=loadtest.DESCRIPTION,
        epilog=loadtest.EXAMPLES,
    )
    loadtest.add_arguments(load)
    _add_plan(commands)
    models = commands.add_parser("models", help="fetch, list and check models")
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    pull = actions.add_parser("pull", help="fetch models that are not there yet")
    pull.add_argument("names", nargs="*", metavar="NAME", help="models to fetch (default: those `serve` needs)")
    with_settings("pull", pull)
    listing = actions.add_parser("list", help="show the catalogue and what is on this machine")
    with_settings("list", listing)
    check = actions.add_parser("verify", help="check the files on this machine against the catalogue")
    check.add_argument("names", nargs="*", metavar="NAME", help="models to check (default: all that are there)")
    with_settings("verify", check)
    return parser, sources


def _add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    plan = commands.add_parser(
        "plan",
        help="simulate how many calls this machine, or a GPU, will carry",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=plan_command.DESCRIPTION,
        epilog=plan_command.EXAMPLES,
    )
    plan_command.add_arguments(plan)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser, sources = build_parser()
    arguments = parser.parse_args(_long_form(sys.argv[1:] if argv is None else argv))
    if arguments.command == "loadtest":
        return loadtest.run(arguments)
    if arguments.command == "plan":
        return plan_command.run(arguments)
    name = arguments.action if arguments.command == "models" else arguments.command
    try:
        settings = load_settings(arguments.config, sources[name](parsed_args=arguments))
        if arguments.command == "serve":
            return _serve(settings)
        if arguments.command == "doctor":
            return _doctor(settings)
        from voice.models_command import run

        return run(name, getattr(arguments, "names", []), settings)
    except HalfsecondError as error:
        print(f"halfsecond: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _long_form(argv: Sequence[str]) -> list[str]:
    """`--sip` alone is short for `--sip.on true`; with a JSON value it is the whole section, as for all sections."""
    following = [*argv[1:], ""]
    return [
        part
        for word, after in zip(argv, following, strict=True)
        for part in (("--sip.on", "true") if word == "--sip" and not after.startswith("{") else (word,))
    ]


def _doctor(settings: Settings) -> int:
    from voice.doctor import run
    from voice.observe import set_up_log

    set_up_log(settings.log_level, settings.log_format)
    return run(settings)


def _serve(settings: Settings) -> int:
    from voice.serve import serve

    return asyncio.run(serve(settings))


if __name__ == "__main__":
    sys.exit(main())
