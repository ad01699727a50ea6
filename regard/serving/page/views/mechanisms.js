// The same queries and keys, weighed by several mechanisms: maps side by side that share one cell.

import { html, useMemo, useState } from "../drawing/vendor/preact.js";
import { scaleOf, scalesFor, SIGNED, topOf } from "../drawing/colours.js";
import { Check, Select } from "../drawing/controls.js";
import { HeatMap } from "../drawing/heatmap.js";
import { largest, percent, quoted, written } from "../drawing/numbers.js";
import { visibleOf } from "../drawing/panel.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { HeadChoice, headOf } from "../parts/head_choice.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Numbers, Table } from "../drawing/table.js";
import { Legend } from "../drawing/words.js";
import { TextForm, textOf, useAnswers } from "../parts/ask.js";

const WHOLE = new Intl.NumberFormat("en-GB");

function panelOf(given, one, isDifference) {
  const [first] = given.panels;
  const weights = isDifference ? one.weights.map((row, i) => row.map((w, j) => w - first.weights[i][j]))
    : one.weights;
  // a difference is masked only where the model is; pairs that only a pattern masks do differ
  const visible = visibleOf([(isDifference ? first : one).visible], 0, given.queries.length, given.keys.length);
  return { title: `${one.name}${isDifference ? " minus the model" : ""}`, queries: given.queries,
    keys: given.keys, queryTitle: given.query_title, keyTitle: given.key_title, weights, visible,
    allowed: visible?.map((row) => row.reduce((a, b) => a + b, 0)), isShare: !isDifference,
    specials: { query: new Set(), key: new Set() } };
}

function Panels({ given, isDifference, stops, differences, scale }) {
  const cell = useState({ query: 0, key: 0 }), seen = useState(false);
  const panels = useMemo(() => given.panels.map((one) => panelOf(given, one, isDifference)),
    [given, isDifference]);
  const top = useMemo(() => (isDifference ? Math.max(...panels.map(({ weights }) =>
    largest(weights.map((row) => row.map(Math.abs))))) || 1
    : Math.max(...panels.map((panel) => topOf(scale, panel)))), [panels, scale]);
  const [{ query, key }, isShown] = [cell[0], seen[0]];
  const hasMasked = panels.some(({ visible }) => visible.some((row) => row.some((one) => !one)));
  const number = (one) => (visibleOf([one.visible], 0, given.queries.length, given.keys.length)[query][key]
    ? written(one.weights[query][key]) : "masked");
  const said = isShown && given.queries[query] != null && given.keys[key] != null
    ? `${quoted(given.queries[query])} → ${quoted(given.keys[key])}: `
      + given.panels.map((one) => `${one.name} ${number(one)}`).join(", ")
    : "Point at a cell of any map: all maps show it.";
  return html`<p class="readout" role="status">${said}</p>
    <${Legend} top=${top} stops=${isDifference ? differences : stops} scale=${isDifference ? null : scale}
      name=${isDifference ? "difference" : "weight"} from=${isDifference ? `−${written(top)}` : undefined}
      hasMasked=${hasMasked} />
    <p class="quiet small">Rows: ${given.query_title}; columns: ${given.key_title}.</p>
    <div class="side-by-side">${panels.map((panel, i) => html`<figure key=${given.panels[i].name}>
      <figcaption>${given.panels[i].name}</figcaption>
      <p class="quiet small about">${given.panels[i].title}${given.panels[i].settings
        && ` (${given.panels[i].settings})`}</p>
      <${HeatMap} panel=${panel} scale=${isDifference ? SIGNED : scale} top=${top}
        stops=${isDifference ? differences : stops}
        linked=${{ cell, seen }} hasMargins=${false} hint="" isShort label=${panel.title} />
      <${Numbers} panel=${panel} /></figure>`)}</div>`;
}

const or = (value, write) => (value == null ? "–" : write(value));

function Costs({ given }) {
  return html`<${Table} caption="In numbers" heads=${["mechanism", "entropy, nats", "weights of 0",
      "weight elsewhere", "same first key", "cosine of outputs", "FLOPs", "bytes of scores"]}
    rows=${given.panels.map((panel) => [panel.name, written(panel.entropy),
      percent(panel.zeros), percent(panel.difference), percent(panel.same_first), or(panel.cosine, written),
      or(panel.operations, WHOLE.format), or(panel.bytes, WHOLE.format)])} />
    <p class="quiet small">Weight elsewhere than the model's; the key that is weighed most, the same as the
      model's. Cosine of outputs: between what this head reads and what the model's own head does,
      averaged over queries; 1 is the same direction. FLOPs are counted, not timed, for this head and text: two
      for every pair of numbers that is multiplied and added, for the scores of all pairs that may be seen and
      for the values of those whose weight is not 0; what turns scores into weights is not counted. Bytes: four
      for every pair that may be seen, if all scores are held at once.</p>`;
}

export function Mechanisms({ info, params, change, stops, differences, ramps }) {
  const text = textOf(params, info);
  const answered = useAnswers(info, text, params);
  const name = answered.value?.answers[0]?.record;
  const record = useAnswer(() => name && get(["records", name]), [name]);
  const { kind, one, layer, head } = headOf(params, record.value?.attention, "encoder");
  const given = useAnswer(() => one && get(["records", name, "mechanisms", kind, layer - 1, head - 1]),
    [name, kind, layer, head, Boolean(one)]);
  const error = answered.error ?? record.error ?? given.error;
  const isDifference = params.difference === "on", scale = scaleOf(params.scale);
  return html`<div class="workbench"><div><${TextForm} text=${text} hasTarget=${false} info=${info} params=${params}
      isBusy=${answered.isBusy || given.isBusy} ask=${change} />
    ${error && html`<p class="error" role="alert">${error}</p>`}</div>
    ${given.value && html`<section class="picture" aria-label="mechanisms side by side"><${Panels} given=${given.value} isDifference=${isDifference}
        stops=${stops} differences=${differences} scale=${scale} />
      <${Costs} given=${given.value} /></section>`}
    ${one && html`<${SidePanel}><${Group} title="What is shown"><div class="bar">
      <${HeadChoice} attention=${record.value.attention} kind=${kind} layer=${layer} head=${head} change=${change} />
      <${Select} label="scale" value=${params.scale ?? "linear"}
        options=${scalesFor(true).map(([key, each]) => [key, each.name])}
        onChange=${(next) => change({ scale: next === "linear" ? "" : next })} />
      <${Check} label="show differences to the model" isOn=${isDifference}
        onChange=${(isOn) => change({ difference: isOn ? "on" : "" })} /></div></${Group}>
      <${ColourMaps} ramps=${ramps} params=${params} change=${change} />
      ${given.value && html`<${Group} title="What to make of it"><p class="quiet small">All of them read the queries and keys that the loaded
        model made of this text, and see no key that it may not see; each changes one link of the chain. Left out, since they have
        parameters that would have to be trained: ${given.value.left_out.join(", ")}. Train a run with
        one of these and compare the runs.</p></${Group}>`}</${SidePanel}>`}</div>`;
}
