// The map of a text of any length: what to look at, search, far links, and what each key receives.

import { html, useEffect, useMemo, useState } from "../drawing/vendor/preact.js";
import { Select } from "../drawing/controls.js";
import { quoted } from "../drawing/numbers.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { HeadChoice, headOf } from "../parts/head_choice.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Table } from "../drawing/table.js";
import { TileMap } from "../parts/tile_map.js";
import { TextForm, textOf, useAnswers } from "../parts/ask.js";

function matches(names, wish) {
  const low = wish.trim().toLowerCase();
  return low ? names.flatMap((name, i) => (name.toLowerCase().includes(low) ? [i] : [])).slice(0, 200) : [];
}

// exact summaries, by request, and how many are kept; milliseconds of rest before the next pass
const EXACT = new Map(), MOST = 32, REST = 500;
const resting = (signal) => new Promise((ready, fail) => {
  const waiting = setTimeout(ready, REST);
  signal.addEventListener("abort", () => { clearTimeout(waiting); fail(signal.reason); });
});

// A summary of a few queries at once; then, when idle, of more queries, and then of all.
function useSummary(parts, far) {
  const name = parts && JSON.stringify([...parts, far]);
  const [answer, setAnswer] = useState({ value: null, error: null, isBusy: false });
  useEffect(() => {
    if (!name) { setAnswer({ value: null, error: null, isBusy: false }); return undefined; }
    const control = new AbortController(), { signal } = control;
    const pass = async (every) => {
      const value = EXACT.get(name) ?? await get(parts, { far, every }, signal);
      if (signal.aborted) return;
      setAnswer({ value, error: null, isBusy: false });
      if (value.is_exact) {
        EXACT.set(name, value);
        if (EXACT.size > MOST) EXACT.delete(EXACT.keys().next().value);
        return;
      }
      await resting(signal);
      await pass(Math.max(1, Math.floor(value.every / 8)));
    };
    setAnswer((last) => ({ ...last, error: null, isBusy: true }));
    pass(0).catch((error) => signal.aborted || setAnswer({ value: null, error: error.message, isBusy: false }));
    return () => control.abort();
  }, [name]);
  return answer;
}

const said = (count) => count.toLocaleString("en");

function FarLinks({ summary, tokens, far, setFar, jump }) {
  // between two texts there is no distance: all links count
  const isFar = summary.far >= 0;
  return html`<h2>Strongest ${isFar ? "far " : ""}links</h2><div class="bar">${isFar && html`<label>more than
      <input type="number" min="0" value=${far} onChange=${(event) => setFar(event.target.value)} />
      places apart</label>`}<span class="quiet rows" role="status">${summary.is_exact
        ? `Exact: all ${said(summary.n_queries)} queries were used.`
        : `Sampled for now: ${said(summary.rows_used)} of ${said(summary.n_queries)} queries were used; more follow.`
      }</span></div><p class="quiet small">Bars above the map: the weight that each key receives.</p>
    <ol class="far">${summary.links.slice(0, 12).map(([query, key, weight]) => html`
      <li key=${`${query}-${key}`}><button type="button" onClick=${() => jump({ query, key })}>
        <bdi>${quoted(tokens.queries[query])}</bdi> (${query + 1}) →${" "}
        <bdi>${quoted(tokens.keys[key])}</bdi> (${key + 1}) ${weight.toFixed(4)}</button></li>`)}</ol>
    ${!summary.links.length && html`<p class="quiet">There are none${isFar ? " that far apart" : ""}.</p>`}
    <details class="numbers"><summary>Weight received, as a table</summary>
    <${Table} caption="The keys that receive most" heads=${["key", "place", "weight"]}
      rows=${summary.heaviest.map(([key, sum]) => [tokens.keys[key], key + 1, sum.toFixed(4)])} /></details>`;
}

export function Atlas({ served, run, info, params, change, stops, ramps, isDark }) {
  const text = textOf(params, info);
  const saved = served.records.includes(params.record) ? params.record : run ? "" : served.records[0];
  const answered = useAnswers(!saved && info, text, params);
  const wanted = saved || answered.value?.answers[0]?.record;
  // the record carries its name, so that later requests never combine it with another record's name
  const record = useAnswer(() => wanted && get(["records", wanted]).then((found_) => ({ ...found_, name: wanted })),
    [wanted]);
  const name = record.value?.name;
  const chosen = headOf(params, record.value?.attention), { kind, one } = chosen;
  // the server counts from 0
  const [layer, head] = [chosen.layer - 1, chosen.head - 1];
  const far = Math.max(Number(params.far ?? 4) || 0, 0);
  const size = useAnswer(() => one && get(["records", name, "atlas", kind, layer])
    .then((found_) => ({ ...found_, parts: ["records", name, "tiles", kind, layer] })),
    [name, kind, layer, Boolean(one)]);
  const summary = useSummary(one && ["records", name, "profile", kind, layer, head], far);
  const [jump, setJump] = useState(null);
  const tokens = useMemo(() => one && { queries: one.queries.pieces, keys: one.keys.pieces }, [one]);
  const found = useMemo(() => ({ keys: tokens ? matches(tokens.keys, params.find ?? "") : [],
    queries: tokens ? matches(tokens.queries, params.find ?? "") : [] }), [tokens, params.find]);
  const error = answered.error ?? record.error ?? size.error ?? summary.error;
  const next = () => found.keys.length && setJump({ query: found.queries[0] ?? 0,
    key: found.keys[(found.keys.indexOf(jump?.key) + 1) % found.keys.length] });
  return html`<div class="workbench"><div>${served.records.length > 0 && html`<div class="bar"><${Select} label="map of" value=${saved}
      options=${[...(run ? [["", "a text of your own"]] : []), ...served.records.map((each) => [each, each])]}
      onChange=${(next_) => change({ record: next_, kind: "", layer: "", head: "", find: "" })} /></div>`}
    ${!saved && html`<${TextForm} text=${text} info=${info} params=${params}
      isBusy=${answered.isBusy || size.isBusy || summary.isBusy}
      ask=${change} />`}
    ${error && html`<p class="error" role="alert">${error}</p>`}</div>
    <section class="picture" aria-label="the map">${one && size.value && html`<${TileMap} size=${size.value} tokens=${tokens} profile=${summary.value?.received}
      parts=${[...size.value.parts, Math.min(head, size.value.n_heads - 1)]} params=${params} change=${change} stops=${stops}
      isDark=${isDark} jump=${jump} found=${found} />`}</section>
    ${one && html`<${SidePanel}><${Group} title="What is shown"><div class="bar">
      <${HeadChoice} attention=${record.value.attention} kind=${kind} layer=${chosen.layer} head=${chosen.head}
        change=${change} /></div></${Group}>
      <${Group} title="Find"><div class="bar find"><label>find <input id="find" type="search" value=${params.find ?? ""} dir="auto"
        onInput=${(event) => change({ find: event.target.value })}
        onKeyDown=${(event) => event.key === "Enter" && next()} /></label>
      <button type="button" disabled=${!found.keys.length} onClick=${next}>Next</button></div>
      <p role="status" class="quiet">${params.find
        ? `${found.keys.length} keys, ${found.queries.length} queries` : ""}</p></${Group}>
      ${summary.value && html`<section class="group"><${FarLinks} summary=${summary.value} tokens=${tokens} far=${far}
        setFar=${(next_) => change({ far: next_ })} jump=${setJump} /></section>`}
      <${ColourMaps} ramps=${ramps} params=${params} change=${change} /></${SidePanel}>`}</div>`;
}
