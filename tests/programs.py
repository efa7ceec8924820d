"""Runs telephony programs for tests; whatever a sipp scenario doesn't expect fails it."""

import asyncio
from pathlib import Path

from tests.conftest import free_port

SCENARIOS = Path(__file__).parent / "data" / "sipp"


async def run(*command: str) -> str:
    """Run a program to its end, which must be a good one; returns what it wrote."""
    program = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert program.returncode == 0, output.decode(errors="replace")[-3000:]
    return output.decode(errors="replace")


async def sipp(port: int, scenario: str, *flags: str, patience: int) -> None:
    """Run a scenario against a port of this machine, for `patience` seconds at most."""
    await run(
        "sipp", f"127.0.0.1:{port}", "-sf", str(SCENARIOS / f"{scenario}.xml"),
        "-i", "127.0.0.1", "-p", str(free_port()), "-m", "1", "-nostdin",
        "-max_socket", "500",  # by default more than many machines let a process open files
        "-timeout", str(patience), "-timeout_error", *flags,
    )  # fmt: skip
