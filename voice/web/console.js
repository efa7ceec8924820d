// The console: one WebRTC call to this service, spoken with OpenAI Realtime events on `oai-events`.
import { part, turnEntry } from "./stages.js";

const $ = (id) => document.getElementById(id);
const state = { call: null, peer: null, channel: null, mic: null, facts: null, items: new Map(), latencies: [], meters: [], key: sessionStorage.getItem("key") || "" };

window.halfsecond = state; // for the developer's console and the tests

const headers = () => (state.key ? { Authorization: `Bearer ${state.key}` } : {});
function status(text, kind) { $("status").textContent = text; $("status").dataset.state = kind; }

async function loadFacts() {
  const answer = await fetch("/v1/console", { headers: headers() });
  $("keyform").hidden = answer.status !== 401;
  if (answer.status === 401) { status("a key is needed", "error"); return; }
  state.facts = await answer.json();
  if (state.facts.voices.length === 0) { status("the models are loading", "busy"); setTimeout(loadFacts, 1000); return; }
  fill($("voice"), state.facts.voices, state.facts.voice || state.facts.voices[0]);
  const names = new Intl.DisplayNames([navigator.language || "en"], { type: "language" });
  const name = (code) => { try { return names.of(code); } catch { return code; } };
  const codes = [...state.facts.languages].sort((a, b) => name(a).localeCompare(name(b)));
  fill($("language"), ["auto", ...codes], state.facts.language, (code) => (code === "auto" ? "detect" : name(code)));
  if (!state.peer) status("not in a call", "idle");
}
function fill(select, values, chosen, label = (v) => v) {
  select.replaceChildren(...values.map((value) => new Option(label(value), value, false, value === chosen)));
}

// ---- the call ----------------------------------------------------------------------------------

function session() {
  return {
    type: "realtime",
    ...(state.instructions ? { instructions: state.instructions } : {}),
    audio: { input: { transcription: { language: $("language").value } }, output: { voice: $("voice").value } },
  };
}

async function call() {
  $("call").disabled = true;
  status("asking for the microphone", "busy");
  try {
    state.mic = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true } });
    status("connecting", "busy");
    const peer = (state.peer = new RTCPeerConnection({ iceServers: state.facts?.ice_servers || [] }));
    peer.ontrack = (event) => { $("agent").srcObject = event.streams[0] || new MediaStream([event.track]); watch("level-agent", $("agent").srcObject); };
    peer.onconnectionstatechange = () => connectionChanged(peer);
    state.mic.getTracks().forEach((track) => peer.addTrack(track, state.mic));
    watch("level-you", state.mic);
    const channel = (state.channel = peer.createDataChannel("oai-events"));
    channel.onmessage = (message) => show(JSON.parse(message.data));
    await peer.setLocalDescription(await peer.createOffer());
    await gathered(peer);
    const body = new FormData();
    body.set("sdp", peer.localDescription.sdp);
    body.set("session", JSON.stringify({ ...session(), halfsecond: { greeting: state.greeting ?? true } }));
    const answer = await fetch("/v1/realtime/calls", { method: "POST", headers: headers(), body });
    if (!answer.ok) throw new Error((await answer.json()).error?.message || `refused (${answer.status})`);
    state.call = answer.headers.get("Location");
    await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    $("transcript").replaceChildren();
    $("mute").disabled = $("hangup").disabled = false;
  } catch (error) {
    end(error.name === "NotAllowedError" ? "the microphone was not allowed" : error.message, "error");
  }
}

function gathered(peer) {
  if (peer.iceGatheringState === "complete") return Promise.resolve();
  return new Promise((done) => {
    peer.addEventListener("icegatheringstatechange", () => peer.iceGatheringState === "complete" && done());
    setTimeout(done, 2000);
  });
}

function connectionChanged(peer) {
  if (peer !== state.peer) return;
  if (peer.connectionState === "connected") status("in a call", "live");
  if (peer.connectionState === "failed") end("no connection: is a firewall between us? The operator may have to set a TURN server", "error");
  if (peer.connectionState === "closed" || peer.connectionState === "disconnected") end("the call ended", "idle");
}

// A page that goes away says so; the service would otherwise keep the place until it misses us.
function leave() {
  if (state.call) fetch(`${state.call}/hangup`, { method: "POST", headers: headers(), keepalive: true });
  end();
}

function end(text = "the call ended", kind = "idle") {
  state.peer?.close();
  state.mic?.getTracks().forEach((track) => track.stop());
  state.meters.splice(0).forEach((stop) => stop());
  Object.assign(state, { call: null, peer: null, channel: null, mic: null });
  $("call").disabled = false;
  $("mute").disabled = $("hangup").disabled = true;
  $("mute").setAttribute("aria-pressed", "false");
  $("mute").textContent = "Mute";
  status(text, kind);
}

function send(event) { if (state.channel?.readyState === "open") state.channel.send(JSON.stringify(event)); }

function mute() {
  const track = state.mic.getAudioTracks()[0];
  track.enabled = !track.enabled;
  $("mute").setAttribute("aria-pressed", String(!track.enabled));
  $("mute").textContent = track.enabled ? "Mute" : "Unmute";
}

// ---- what happens in it ------------------------------------------------------------------------

function line(id, who) {
  if (!state.items.get(id)?.isConnected) {
    const entry = document.createElement("li");
    entry.className = `say ${who}`;
    entry.dataset.item = id;
    state.items.set(id, entry);
    $("transcript").append(entry);
  }
  $("transcript").scrollTop = $("transcript").scrollHeight;
  return state.items.get(id);
}

const shows = {
  "halfsecond.transcript": (event) => {
    if (!event.text) { if (event.final) state.items.get(event.item_id)?.remove(); return; }
    const entry = line(event.item_id, "you");
    if (event.final) entry.replaceChildren(event.text);
    else entry.replaceChildren(event.text.slice(0, event.committed), part("span", event.text.slice(event.committed), "partial"));
  },
  "response.output_audio_transcript.delta": (event) => { line(event.item_id, "agent").append(event.delta); },
  "halfsecond.heard": (event) => {
    const entry = line(event.item_id, "agent"), whole = entry.textContent;
    const at = whole.trimStart().startsWith(event.text) ? whole.length - whole.trimStart().length + event.text.length : 0;
    entry.replaceChildren(whole.slice(0, at), part("s", whole.slice(at)));
    entry.classList.add("cut");
  },
  "conversation.item.deleted": (event) => state.items.get(event.item_id)?.remove(),
  "halfsecond.turn": turn,
  error: (event) => { $("transcript").append(part("li", event.error.message, "hint")); },
};
function show(event) { shows[event.type]?.(event); }

function turn(event) {
  const target = state.facts.target_ms, total = event.voice_to_voice_ms, entry = turnEntry(event, target);
  if (!$("turns").querySelector(".turn")) $("turns").replaceChildren();
  $("turns").prepend(entry);
  if (total !== null) state.latencies.push(total);
  const sorted = [...state.latencies].sort((a, b) => a - b);
  if (sorted.length) $("summary").textContent = `· median ${Math.round(sorted[Math.floor((sorted.length - 1) / 2)])} ms of ${target}`;
}

// ---- level meters ------------------------------------------------------------------------------

function watch(id, stream) {
  const context = new AudioContext(), analyser = context.createAnalyser();
  analyser.fftSize = 512;
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const level = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
    $(id).style.transform = `scaleX(${Math.min(1, Math.max(0, 1 + Math.log10(level + 1e-5) / 2.5))})`;
  }, 60);
  state.meters.push(() => { clearInterval(timer); context.close(); $(id).style.transform = "scaleX(0)"; });
}

$("call").onclick = call;
$("hangup").onclick = () => end();
window.addEventListener("pagehide", leave);
$("mute").onclick = mute;
$("voice").onchange = $("language").onchange = () => send({ type: "session.update", session: session() });
$("keyform").onsubmit = (event) => { event.preventDefault(); state.key = $("key").value; sessionStorage.setItem("key", state.key); loadFacts(); };
loadFacts();
