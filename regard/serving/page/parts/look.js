// One record, looked at: coloured words, heat map, links, every head, playback and the table, all
// reading one focus.

import { html, useMemo, useState } from "../vendor/preact.js";
import { Controls, said } from "./controls.js";
import { scaleOf } from "./colours.js";
import { HeatMap } from "./heatmap.js";
import { Heads } from "./heads.js";
import { Links } from "./links.js";
import { Numbers } from "./table.js";
import { panelOf, wished } from "./panel.js";
import { Playback } from "./playback.js";
import { get, numbers } from "./server.js";
import { useAnswer, useFocus } from "./state.js";
import { Statistics } from "./statistics.js";
import { Legend, Line, readout, shadesOf } from "./words.js";

// texts and tokens of a record, and the weights of one kind
export function useRecord(name, params) {
  const record = useAnswer(() => name && get(["records", name]), [name]);
  const kind = record.value && wished(params, record.value).kind;
  const weights = useAnswer(
    () => kind && numbers(["records", name, "weights", kind]).then((given) => ({ kind, name, given })),
    [name, kind]);
  const isWhole = weights.value && weights.value.kind === kind && weights.value.name === name
    && record.value?.record === name;
  return { record: record.value, weights: isWhole ? weights.value.given : null,
    error: record.error ?? weights.error, isBusy: record.isBusy || weights.isBusy };
}

// the query that is surest, which is in focus until somebody chooses another
function surest(panel) {
  let best = null, most = -1;
  panel.weights.forEach((row, place) => {
    const top = Math.max(...row);
    if (!panel.specials.query.has(place) && top > most) [best, most] = [place, top];
  });
  return best == null ? "none" : `q${best + 1}`;
}

export function Look({ record, weights, params, change, stops, chances }) {
  const view = wished(params, record);
  const one = record.attention[view.kind];
  const panel = useMemo(() => panelOf(record, weights, view),
    [record, weights, view.kind, view.layer, view.head, view.unit, view.isHiding]);
  const [picture, setPicture] = useState(null);
  const focus = useFocus(params.pin || surest(panel), (pin) => change({ pin }));
  const scale = scaleOf(params.scale), shades = shadesOf(panel, focus.at);
  const top = shades && shades.count > 1 ? Math.max(...shades.weights, panel.top) : panel.top;
  const lines = { panel, focus, shades, top, scale, stops, hasNumbers: params.numbers === "on" };
  const shown = picture ?? params.picture ?? "map";
  const choose = (name) => { setPicture(name); change({ picture: name === "map" ? "" : name }); };
  const isChosen = focus.hover || params.pin;
  const rows = isChosen && focus.at.length && focus.at[0].side === "query"
    ? focus.at.map(({ place }) => piecesOf(one.queries, view, place, panel)).flat() : null;
  // chances are those of the answer's pieces; the rows of some maps are others
  const fitting = view.kind !== "encoder" && chances?.every(([name], i) => name === one.queries.pieces[i])
    ? chances : null;
  const show = (layer, head) => change({ layer: said(layer), head: said(head) });
  return html`<section aria-label="what the model looked at">
    <${Controls} record=${record} view=${view} params=${params} change=${change} />
    <${Line} side="query" ...${lines} />
    <${Playback} panel=${panel} focus=${focus} change=${change} chances=${fitting} isWords=${view.unit === "words"} />
    <${Line} side="key" ...${lines} />
    <p class="readout" role="status">${readout(panel, focus.at)}</p>
    <${Legend} top=${top} stops=${stops} scale=${scale} />
    ${panel.removed && html`<p class="note">${panel.removed}</p>`}
    <div class="tabs" role="group" aria-label="picture">
      ${[["map", "Heat map"], ["links", "Links"], ["heads", "Every head"]].map(([key, name]) => html`
        <button type="button" key=${key} aria-pressed=${String(shown === key)}
          onClick=${() => choose(key)}>${name}</button>`)}</div>
    <h2 class="what">${panel.title}</h2>
    ${shown === "map" && html`<${HeatMap} panel=${panel} focus=${focus} stops=${stops}
      share=${(weight) => scale.share(weight, panel.top)} />`}
    ${shown === "links" && html`<${Links} panel=${panel} focus=${focus}
      share=${Number(params.share ?? 0.8)} setShare=${(share) => change({ share })} />`}
    ${shown === "heads" && html`<p class="quiet">Choose a head to see it above. Pieces, not words;
      a word in focus shows its rows alone.</p>
      <${Heads} one=${one} weights=${weights} view=${view} scale=${scale} stops=${stops}
        focusRow=${rows?.length ? rows : null}
        choose=${show} />
      <${Statistics} record=${record.record} kind=${view.kind} view=${view} choose=${show} />`}
    <${Numbers} panel=${panel} />
    <p class="quiet small">${one.mechanism && `${view.kind}: ${one.mechanism}. `}Attention shows where a
      model read, not why it answered as it did.</p>
  </section>`;
}

function piecesOf(tokens, view, place, panel) {
  const name = panel.queries[place];
  if (view.unit === "pieces" && !view.isHiding) return [place];
  if (view.isHiding) return [];
  return tokens.words.flatMap((word, i) => (word === place && name != null ? [i] : []));
}
