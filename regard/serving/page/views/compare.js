// Two runs, or two answers of one, on the same text: maps side by side, and their difference where
// both have the same words.

import { html, useMemo, useState } from "../drawing/vendor/preact.js";
import { scaleOf, SIGNED, topOf } from "../drawing/colours.js";
import { Controls, Select } from "../drawing/controls.js";
import { useFocus } from "../drawing/focus.js";
import { HeatMap } from "../drawing/heatmap.js";
import { viewOf } from "../drawing/look.js";
import { largest, written } from "../drawing/numbers.js";
import { panelOf, wished } from "../drawing/panel.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Numbers } from "../drawing/table.js";
import { Legend, readout } from "../drawing/words.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { useFacts } from "../parts/facts.js";
import { useRecord } from "../parts/record.js";
import { placeOf } from "../parts/state.js";
import { TextForm, textOf, useAnswers } from "../parts/ask.js";

function useSide(run, text, place, params) {
  const facts = useFacts(run && { name: run });
  const answered = useAnswers(facts.info, text, { most: params.most });
  const answers = answered.value?.answers ?? [];
  const at = Math.min(place, answers.length - 1);
  const seen = useRecord(answers[at]?.record, params);
  const panel = useMemo(() => seen.numbers
    && panelOf(seen.record, seen.numbers, viewOf(params, seen.record, seen.numbers)),
    [seen.numbers, params.kind, params.layer, params.head, params.unit, params.specials]);
  return { run, info: facts.info, answers, at, panel, record: seen.record,
    isBusy: facts.isBusy || answered.isBusy || seen.isBusy, error: facts.error ?? answered.error ?? seen.error };
}

function Pane({ side, letter, runs, choose, focus, cell, scale, stops, top }) {
  return html`<figure class="pane"><figcaption>${letter}</figcaption><div class="bar">
    <${Select} label=${`run ${letter}`} value=${side.run} options=${runs.map((name) => [name, name])}
      onChange=${(run) => choose({ run })} />
    <${Select} label=${`answer ${letter}`} value=${side.at + 1}
      options=${side.answers.map((one, i) => [i + 1, `${i + 1}. ${one.text}`])}
      onChange=${(answer) => choose({ answer })} /></div>
    ${side.error && html`<p class="error" role="alert">${side.error}</p>`}
    ${side.panel && html`<h2 class="what">${side.panel.title}</h2>
      <p class="readout">${focus.at.length ? readout(side.panel, focus.at) : ""}</p>
      <${HeatMap} panel=${side.panel} focus=${focus} linked=${cell} stops=${stops}
        scale=${scale} top=${top} hasMargins=${side.panel.isShare} label=${`${letter}: ${side.panel.title}`} />
      <${Numbers} panel=${side.panel} />`}</figure>`;
}

const same = (a, b) => a.length === b.length && a.every((name, i) => name === b[i]);

function Difference({ a, b, focus, cell, stops }) {
  if (!same(a.keys, b.keys) || !same(a.queries, b.queries)) {
    return html`<p class="note">A and B wrote different words, or cut them differently, so there is no
      cell by cell difference; what is pointed at is shown in both by its place.</p>`;
  }
  const weights = a.weights.map((row, i) => Float64Array.from(row, (w, j) => b.weights[i][j] - w));
  const panel = { ...a, title: "B minus A", weights, isShare: false };
  const top = largest(weights.map((row) => row.map(Math.abs))) || 1;
  return html`<h2>B minus A</h2>
    <${Legend} top=${top} stops=${stops} name="difference" from=${`−${written(top)}`} />
    <${HeatMap} panel=${panel} focus=${focus} linked=${cell} stops=${stops} hasMargins=${false}
      scale=${SIGNED} top=${top} /><${Numbers} panel=${panel} />`;
}

export function Compare({ served, info, run, params: asked, change, stops, differences, ramps }) {
  // runs may split words differently, so whole words are compared
  const params = { ...asked, unit: asked.unit || "words" };
  const runs = served.runs.filter(({ reads }) => reads === "texts").map(({ name }) => name);
  const text = textOf(params, info);
  const known = (name, other) => (runs.includes(name) ? name : other);
  const a = useSide(info && known(params.a, run), text, placeOf(params.answerA), params);
  const other = runs.find((name) => name !== a.run) ?? a.run;
  const b = useSide(info && known(params.b, other), text,
    placeOf(params.answerB, known(params.b, other) === a.run ? 2 : 1), params);
  // the limit of an answer's length is offered if either side writes answers
  const writes = [a.info, b.info].find((one) => one?.usual_answer);
  const facts = info && { ...info, usual_answer: writes?.usual_answer, longest: writes?.longest };
  const focus = useFocus(params.pin, (pin) => change({ pin }));
  const cell = { cell: useState({ query: 0, key: 0 }), seen: useState(false) };
  const swap = () => change({ a: b.run, b: a.run, answerA: b.at + 1, answerB: a.at + 1 });
  const panels = [a.panel, b.panel].filter(Boolean), isShare = panels.every((panel) => panel.isShare);
  const scale = scaleOf(params.scale, isShare), top = Math.max(0, ...panels.map((panel) => topOf(scale, panel))) || 1;
  const shared = { focus, cell, scale, stops, runs, top };
  return html`<div class="workbench"><div><${TextForm} text=${text} hasTarget=${false} info=${facts} params=${params}
      isBusy=${a.isBusy || b.isBusy} ask=${(next) => change({ ...next, answerA: "", answerB: "" })} /></div>
    <section class="picture" aria-label="A and B side by side">
    <div class="reading"><button type="button" onClick=${swap}>Swap A and B</button>
    <${Legend} top=${top} stops=${stops} scale=${scale} name=${panels[0]?.unit}
      hasMasked=${panels.some(({ hasMasked }) => hasMasked)} /></div>
    <div class="panes"><${Pane} letter="A" side=${a} ...${shared}
        choose=${(wish) => change({ a: wish.run ?? a.run, answerA: wish.answer ?? "" })} />
      <${Pane} letter="B" side=${b} ...${shared}
        choose=${(wish) => change({ b: wish.run ?? b.run, answerB: wish.answer ?? "" })} /></div>
    ${a.panel && b.panel && html`<${Difference} a=${a.panel} b=${b.panel} focus=${focus} cell=${cell}
      stops=${differences} />`}</section>
    ${a.record && html`<${SidePanel}><${Group} title="What is shown"><${Controls} record=${a.record} view=${wished(params, a.record)}
      params=${params} change=${change} hasWords=${false} /></${Group}>
      <${ColourMaps} ramps=${ramps} params=${params} change=${change} /></${SidePanel}>`}</div>`;
}
