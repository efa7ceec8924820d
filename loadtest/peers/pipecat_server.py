"""pipecat behind Twilio Media Streams, in its own environment: `python pipecat_server.py MODELS PORT LLAMA_URL`.

The same models through the same runtimes as halfsecond's defaults: Whisper base in INT8 by
faster-whisper, SmolLM2 135M behind llama.cpp's server, the voice joe by Piper, Silero and
smart-turn v3 by pipecat. Whisper and the voice are loaded once and shared by all calls; without
that each call would load its own.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pipecat.services.piper.tts as piper_service
import pipecat.services.whisper.stt as whisper_service
import uvicorn
from fastapi import FastAPI, WebSocket
from faster_whisper import WhisperModel
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.piper.tts import PiperTTSService
from pipecat.services.whisper.stt import WhisperSTTService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport

MODELS, PORT, LLAMA = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
RATE = 8_000
PROMPT = (
    "You are a friendly voice assistant in a phone call. Answer in one or two short, natural spoken "
    "sentences. Do not use lists, markdown, code or emoji."
)


def share_models() -> Path:
    """Make pipecat's services use one Whisper and one voice; returns the folder of the voice."""
    whisper = WhisperModel(str(MODELS / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    whisper_service.WhisperModel = lambda *_, **__: whisper
    folder = Path(tempfile.mkdtemp(prefix="peer-voice-"))
    for suffix in (".onnx", ".onnx.json"):
        (folder / f"joe{suffix}").symlink_to(MODELS / "piper-joe" / f"en_US-joe-medium{suffix}")
    voice = piper_service.PiperVoice.load(folder / "joe.onnx")
    piper_service.PiperVoice.load = staticmethod(lambda *_, **__: voice)
    return folder


logger.remove()
logger.add(sys.stderr, level="WARNING")
VOICE = share_models()
app = FastAPI()


@app.websocket("/twilio")
async def call(socket: WebSocket) -> None:
    """One call."""
    await socket.accept()
    messages: Any = socket.iter_text()
    await anext(messages)
    start = json.loads(await anext(messages))
    serializer = TwilioFrameSerializer(
        stream_sid=start["start"]["streamSid"], params=TwilioFrameSerializer.InputParams(auto_hang_up=False)
    )
    transport = FastAPIWebsocketTransport(
        websocket=socket,
        params=FastAPIWebsocketParams(
            audio_in_enabled=True, audio_out_enabled=True, add_wav_header=False, serializer=serializer
        ),
    )
    hear = WhisperSTTService(device="cpu", compute_type="int8", settings=WhisperSTTService.Settings(model="base"))
    think = OpenAILLMService(
        api_key="none",
        base_url=f"{LLAMA}/v1",
        settings=OpenAILLMService.Settings(model="smollm2", temperature=0.3, max_tokens=120),
    )
    speak = PiperTTSService(download_dir=VOICE, settings=PiperTTSService.Settings(voice="joe"))
    context = LLMContext([{"role": "system", "content": PROMPT}])
    turns = LLMContextAggregatorPair(context, user_params=LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer()))
    steps = [transport.input(), hear, turns.user(), think, speak, transport.output(), turns.assistant()]
    task = PipelineTask(Pipeline(steps), params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE))

    @transport.event_handler("on_client_disconnected")
    async def gone(*_: Any) -> None:
        await task.cancel()

    await PipelineRunner(handle_sigint=False).run(task)


uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
