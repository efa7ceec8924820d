// One turn as a bar: each stage from the caller's last sound on, the budget, the agent's first sound.
export function part(tag, text, kind = "") { const node = document.createElement(tag); node.textContent = text; node.className = kind; return node; }

// turn: { outcome, cut_at_s, voice_to_voice_ms, stages: [{ stage, start_ms, end_ms }] }; target in ms
export function turnEntry(turn, target) {
  const total = turn.voice_to_voice_ms;
  const scale = Math.max(target * 1.2, total || 0, ...turn.stages.map((s) => s.end_ms));
  const at = (ms) => `${Math.max(0, (100 * ms) / scale)}%`;
  const entry = part("li", "", "turn"), head = part("p", ""), bar = part("div", "", "bar");
  head.append(part("small", turn.outcome === "barged_in" ? `cut off after ${turn.cut_at_s.toFixed(1)} s` : turn.outcome.replaceAll("_", " ")));
  head.append(part("b", total === null ? "–" : `${Math.round(total)} ms`, total > target ? "late" : ""));
  for (const stage of turn.stages) {
    const span = part("i", "");
    span.dataset.stage = stage.stage;
    span.style.left = at(stage.start_ms);
    span.style.width = at(stage.end_ms - stage.start_ms);
    span.title = `${stage.stage}: ${Math.round(stage.end_ms - stage.start_ms)} ms`;
    bar.append(span);
  }
  const due = part("u", ""), first = part("em", "");
  due.style.left = at(target); due.title = `budget: ${target} ms`;
  if (total !== null) { first.style.left = at(total); first.title = "first sound"; bar.append(first); }
  bar.append(due);
  entry.append(head, bar, part("small", turn.stages.map((s) => `${s.stage} ${Math.round(s.end_ms - s.start_ms)}`).join(" · ") + " ms"));
  return entry;
}
