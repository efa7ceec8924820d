// Call records: the list, and a page for each call with what was said, its sound and the stages of its turns.
import { part, turnEntry } from "./stages.js";

const $ = (id) => document.getElementById(id);
const state = { key: sessionStorage.getItem("key") || "", before: "", target: 800, sound: "" };

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: state.key ? { Authorization: `Bearer ${state.key}` } : {} });
  $("keyform").hidden = answer.status !== 401;
  if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.error?.message || `the service answered ${answer.status}`);
  return answer;
}
const when = (text) => (text ? new Date(text).toLocaleString() : "");
const length = (seconds) => (seconds === null ? "in the air" : `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`);

// ---- the list ----------------------------------------------------------------------------------

async function list(more = false) {
  $("list").hidden = false; $("one").hidden = true;
  const page = await (await ask(`/v1/calls?limit=50${more ? `&before=${state.before}` : ""}`)).json();
  if (!more) $("rows").replaceChildren();
  $("rows").append(...page.calls.map(row));
  state.before = page.before || "";
  $("older").hidden = !state.before;
  $("note").textContent = $("rows").children.length ? "" : "No calls yet.";
}
function row(call) {
  const line = part("tr", "", call.refused ? "refused" : ""), began = part("td", "");
  const link = part("a", when(call.began));
  link.href = `#${call.id}`;
  began.append(call.refused ? when(call.began) : link);
  const cells = [call.transport, call.from, call.to, call.refused ? "" : length(call.seconds), call.refused ? "" : call.turns];
  line.append(began, ...cells.map((text, i) => part("td", text, i > 2 ? "number" : "")), part("td", `${call.refused ? "refused: " : ""}${call.reason ?? ""}${call.recording ? " ♪" : ""}`));
  return line;
}

// ---- one call ----------------------------------------------------------------------------------

async function show(id) {
  const call = await (await ask(`/v1/calls/${encodeURIComponent(id)}`)).json();
  $("list").hidden = true; $("one").hidden = false;
  $("title").textContent = call.from ? `${call.from} to ${call.to || "us"}` : `${call.transport} call`;
  const facts = { began: when(call.began), length: length(call.seconds), "ended by": call.reason ?? "", by: call.transport, profile: call.profile, client: call.owner, ...call.about, id: call.id };
  $("facts").replaceChildren(...Object.entries(facts).filter(([, value]) => value !== "").flatMap(([name, value]) => [part("dt", name), part("dd", value)]));
  $("turns").replaceChildren(...call.turns.map(exchange));
  if (!call.turns.length) $("turns").append(part("p", "Nobody said anything.", "hint"));
  $("delete").onclick = () => remove(id);
  await sound(call);
}
function exchange(turn) {
  const entry = part("div", "", "exchange"), said = part("div", ""), agent = part("p", "", "say agent");
  const heard = turn.said.startsWith(turn.heard) ? turn.heard : turn.said;
  agent.append(heard, part("s", turn.said.slice(heard.length)));
  if (turn.caller) said.append(part("p", turn.caller, "say you"));
  if (turn.said) said.append(agent);
  entry.append(said, turnEntry({ outcome: turn.outcome, cut_at_s: turn.cut_at ?? 0, voice_to_voice_ms: turn.timings.voice_to_voice_ms, stages: turn.timings.stages }, state.target));
  return entry;
}
async function remove(id) {
  if (!confirm("Delete this call, what was said in it and its recording?")) return;
  await ask(`/v1/calls/${encodeURIComponent(id)}`, { method: "DELETE" });
  location.hash = "";
}

// ---- its sound ---------------------------------------------------------------------------------

async function sound(call) {
  URL.revokeObjectURL(state.sound);
  $("recording").hidden = !call.recording;
  $("sound").removeAttribute("src");
  if (!call.recording) return;
  const data = await (await ask(`/v1/calls/${encodeURIComponent(call.id)}/recording`)).arrayBuffer();
  $("sound").src = state.sound = URL.createObjectURL(new Blob([data], { type: "audio/ogg" }));
  draw(await new OfflineAudioContext(2, 1, 16000).decodeAudioData(data));
}
function draw(pcm) {
  const canvas = $("wave"), pen = canvas.getContext("2d"), half = canvas.height / 2, style = getComputedStyle(document.body);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  ["--asr", "--tts"].forEach((colour, side) => {
    const samples = pcm.getChannelData(Math.min(side, pcm.numberOfChannels - 1)), step = samples.length / canvas.width;
    pen.fillStyle = style.getPropertyValue(colour);
    for (let x = 0; x < canvas.width; x++) {
      let loudest = 0;
      for (let i = Math.floor(x * step); i < (x + 1) * step; i++) loudest = Math.max(loudest, Math.abs(samples[i] || 0));
      const height = Math.max(1, Math.sqrt(loudest) * half * 0.95);
      pen.fillRect(x, half * (side + 0.5) - height / 2, 1, height);
    }
  });
}
$("wave").onclick = (event) => {
  if ($("sound").duration) { $("sound").currentTime = ($("sound").duration * event.offsetX) / $("wave").clientWidth; $("sound").play(); }
};

// ---- start -------------------------------------------------------------------------------------

async function open() {
  try {
    await (location.hash.length > 1 ? show(location.hash.slice(1)) : list());
  } catch (error) { $("note").textContent = error.message; }
}
$("older").onclick = () => list(true);
$("keyform").onsubmit = (event) => { event.preventDefault(); state.key = $("key").value; sessionStorage.setItem("key", state.key); open(); };
window.onhashchange = open;
ask("/v1/console").then((answer) => answer.json()).then((facts) => { state.target = facts.target_ms; }).catch(() => {}).finally(open);
