"""What a caller takes from the server's events of OpenAI Realtime, over whatever they come."""

from typing import Any

from loadtest.line import Line

CALLER = "conversation.item.input_audio_transcription.completed"
AGENT = "response.output_audio_transcript.done"
RECORD = "halfsecond.turn"
"""halfsecond's own record of a turn, with the times of its stages; other servers send none."""


def note(line: Line, event: dict[str, Any]) -> None:
    """Keep the texts and the records that the server tells."""
    match event["type"]:
        case kind if kind == CALLER:
            line.caller_said.append(str(event.get("transcript", "")))
        case kind if kind == AGENT:
            line.agent_said.append(str(event.get("transcript", "")))
        case kind if kind == RECORD:
            line.records.append(event)
