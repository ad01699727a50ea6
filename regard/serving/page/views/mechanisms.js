// The same queries and keys, weighed by several mechanisms: maps side by side that share one cell.

import { html, useMemo, useState } from "../vendor/preact.js";
import { scaleOf, signed } from "../parts/colours.js";
import { Check, Select } from "../parts/controls.js";
import { HeatMap } from "../parts/heatmap.js";
import { largest, quoted, written } from "../parts/numbers.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { Numbers, Table } from "../parts/table.js";
import { Legend } from "../parts/words.js";
import { TextForm, useAnswers } from "./translate.js";

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function panelOf(given, one, isDifference) {
  const [first] = given.panels;
  const weights = isDifference ? one.weights.map((row, i) => row.map((w, j) => w - first.weights[i][j]))
    : one.weights;
  return { title: `${one.name}${isDifference ? " minus the model" : ""}`, queries: given.queries,
    keys: given.keys, queryTitle: given.query_title, keyTitle: given.key_title, weights,
    isSigned: isDifference, specials: { query: new Set(), key: new Set() } };
}

function Panels({ given, isDifference, stops, differences, scale }) {
  const cell = useState({ query: 0, key: 0 }), seen = useState(false);
  const panels = useMemo(() => given.panels.map((one) => panelOf(given, one, isDifference)),
    [given, isDifference]);
  const top = useMemo(() => Math.max(...panels.map(({ weights }) =>
    largest(weights.map((row) => row.map(Math.abs))))) || 1, [panels]);
  const share = isDifference ? (w) => signed(w, top) : (w) => scale.share(w, top);
  const [{ query, key }, isShown] = [cell[0], seen[0]];
  const said = isShown && given.queries[query] != null && given.keys[key] != null
    ? `${quoted(given.queries[query])} → ${quoted(given.keys[key])}: ` + given.panels
      .map((one) => `${one.name} ${written(one.weights[query][key])}`).join(", ")
    : "Point at a cell of any map: all maps show it.";
  return html`<p class="readout" role="status">${said}</p>
    <${Legend} top=${top} stops=${isDifference ? differences : stops} scale=${isDifference ? null : scale}
      name=${isDifference ? "difference" : "weight"} from=${isDifference ? `−${written(top)}` : "0"} />
    <p class="quiet small">Rows: ${given.query_title}; columns: ${given.key_title}.</p>
    <div class="side-by-side">${panels.map((panel, i) => html`<figure key=${given.panels[i].name}>
      <figcaption>${given.panels[i].name}</figcaption>
      <p class="quiet small about">${given.panels[i].title}${given.panels[i].settings
        && ` (${given.panels[i].settings})`}</p>
      <${HeatMap} panel=${panel} share=${share} stops=${isDifference ? differences : stops}
        linked=${{ cell, seen }} hasMargins=${false} hint="" isShort label=${panel.title} />
      <${Numbers} panel=${panel} /></figure>`)}</div>`;
}

export function Mechanisms({ run, info, params, change, stops, differences }) {
  const text = params.text ?? info?.examples[0] ?? info?.other_examples[0] ?? "";
  const answered = useAnswers(info && run, text, params.target);
  const name = answered.value?.answers[0]?.record;
  const record = useAnswer(() => name && get(["records", name]), [name]);
  const kinds = Object.keys(record.value?.attention ?? {});
  const kind = kinds.includes(params.kind) ? params.kind : kinds.includes("encoder") ? "encoder" : kinds[0];
  const one = record.value?.attention[kind];
  const limited = (value, count) => Math.min(Math.max(Number(value) || 1, 1), count ?? 1);
  const [layer, head] = [limited(params.layer, one?.n_layers), limited(params.head, one?.n_heads)];
  const given = useAnswer(() => one && get(["records", name, "mechanisms", kind, layer - 1, head - 1]),
    [name, kind, layer, head, Boolean(one)]);
  const error = answered.error ?? record.error ?? given.error;
  const numbered = (count) => [...Array(count).keys()].map((i) => [i + 1, i + 1]);
  const isDifference = params.difference === "on";
  return html`<${TextForm} text=${text} target="" hasTarget=${false} info=${info}
      isBusy=${answered.isBusy || given.isBusy} ask=${(next) => change({ text: next })} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${one && html`<div class="bar">
      <${Select} label="attention" value=${kind} options=${kinds.map((each) => [each, each])}
        onChange=${(next) => change({ kind: next, layer: "", head: "" })} />
      <${Select} label="layer" value=${layer} options=${numbered(one.n_layers)}
        onChange=${(next) => change({ layer: next })} />
      <${Select} label="head" value=${head} options=${numbered(one.n_heads)}
        onChange=${(next) => change({ head: next })} />
      <${Check} label="show differences to the model" isOn=${isDifference}
        onChange=${(isOn) => change({ difference: isOn ? "on" : "" })} /></div>`}
    ${given.value && html`<${Panels} given=${given.value} isDifference=${isDifference} stops=${stops}
        differences=${differences} scale=${scaleOf(params.scale)} />
      <${Table} caption="In numbers" heads=${["mechanism", "entropy, nats", "weights that are 0",
          "weight elsewhere than the model's", "same strongest key"]}
        rows=${given.value.panels.map((panel) => [panel.name, panel.entropy.toFixed(3),
          percent(panel.zeros), percent(panel.difference), percent(panel.same_first)])} />
      <p class="quiet">All of them read the queries and keys that the loaded model made of this text, and
        see no key that it may not see; each changes one link of the chain. Left out, since they have
        parameters that would have to be trained: ${given.value.left_out.join(", ")}. Train a run with
        one of these and compare the runs.</p>`}`;
}
