// The view of one record: coloured words, heat map, links, every head, playback and the table, all
// reading one focus; and beside them what is shown of it.

import { html, useMemo, useState } from "./vendor/preact.js";
import { scaleOf, topOf } from "./colours.js";
import { Controls } from "./controls.js";
import { useFocus } from "./focus.js";
import { Heads } from "./heads.js";
import { HeadPicker } from "./head_picker.js";
import { HeatMap } from "./heatmap.js";
import { Links } from "./links.js";
import { said } from "./numbers.js";
import { panelOf, wished } from "./panel.js";
import { Playback } from "./playback.js";
import { Group, SidePanel } from "./side_panel.js";
import { Numbers } from "./table.js";
import { Legend, Line, readout, shadesOf, shadesTop } from "./words.js";

// the view of the numbers that have arrived, even if the reader has chosen others since
export const viewOf = (params, record, { shown, quantity, settings }) =>
  ({ ...wished(params, record), shown, quantity, settings });

// the query with the largest weight, which has the focus until the reader chooses another
function surest(panel) {
  let best = null, most = -1;
  panel.weights.forEach((row, place) => {
    const top = Math.max(...row);
    if (!panel.specials.query.has(place) && top > most) [best, most] = [place, top];
  });
  return best == null ? "none" : `q${best + 1}`;
}

const PICTURES = [["map", "Heat map"], ["links", "Links"], ["heads", "Every head"]];

// labels of the words alone, one for each that is not special; none if their numbers differ
function fittingNotes(notes, { queries, specials, isWords }) {
  if (!isWords || notes?.length !== queries.length - specials.query.size) return null;
  const left = [...notes];
  return queries.map((_, place) => (specials.query.has(place) ? "" : left.shift()));
}

// `notes` are labels of the text's words; `first` and `last` stand above and below the settings; `Below` stands below the grid of heads
export function Look({ record, numbers: given, params, change, stops, chances, notes, Below, first, last }) {
  const view = viewOf(params, record, given);
  const one = record.attention[view.kind];
  const panel = useMemo(() => panelOf(record, given, view),
    [record, given, view.kind, view.layer, view.head, view.unit, view.isHiding]);
  const [picture, setPicture] = useState(null);
  const focus = useFocus(params.pin || surest(panel), (pin) => change({ pin }));
  const scale = scaleOf(params.scale, panel.isShare), shades = shadesOf(panel, focus.at);
  const most = useMemo(() => topOf(scale, panel), [scale, panel]), top = shadesTop(shades, scale, most);
  const lines = { panel, focus, shades, top, scale, stops, hasNumbers: params.numbers === "on" };
  const pictures = PICTURES.filter(([key]) => key !== "heads" || !view.quantity.is_joined);
  const wish = picture ?? params.picture, shown = pictures.some(([key]) => key === wish) ? wish : "map";
  const choose = (name) => { setPicture(name); change({ picture: name === "map" ? "" : name }); };
  const isChosen = focus.hover || params.pin;
  const rows = isChosen && focus.at.length && focus.at[0].side === "query"
    ? focus.at.map(({ place }) => piecesOf(one.queries, view, place, panel)).flat() : null;
  // chances are those of the answer's pieces; the rows of some maps are others
  const fitting = view.kind !== "encoder" && chances?.every(([name], i) => name === one.queries.pieces[i])
    ? chances : null;
  const show = (layer, head) => change({ layer: said(layer), head: said(head) });
  return html`<section class="picture" aria-label="what the model looked at">
    <${Line} side="query" ...${lines} notes=${fittingNotes(notes, panel)} tools=${html`<${Playback} panel=${panel} focus=${focus}
      change=${change} chances=${fitting} isWords=${view.unit === "words"} />`} />
    <${Line} side="key" ...${lines} />
    <div class="reading"><p class="readout" role="status">${readout(panel, focus.at)}</p>
      <${Legend} top=${top} stops=${stops} scale=${scale} name=${panel.unit} hasMasked=${panel.hasMasked} /></div>
    ${panel.removed && html`<p class="note">${panel.removed}</p>`}
    <div class="toolbar"><div class="tabs" role="group" aria-label="picture">
      ${pictures.map(([key, name]) => html`
        <button type="button" key=${key} aria-pressed=${String(shown === key)}
          onClick=${() => choose(key)}>${name}</button>`)}</div>
      <h2 class="what">${panel.title}</h2></div>
    ${shown === "map" && html`<${HeatMap} panel=${panel} focus=${focus} stops=${stops}
      scale=${scale} top=${most} hasMargins=${panel.isShare} />`}
    ${shown === "links" && html`<${Links} panel=${panel} focus=${focus}
      share=${Number(params.share ?? 0.8)} setShare=${(share) => change({ share })} />`}
    ${shown === "heads" && html`<p class="quiet small">Choose a head to see it in the other pictures. Pieces, not words;
      a word in focus shows its rows alone.</p>
    <${Heads} one=${one} numbers=${given} view=${view} scale=${scale} stops=${stops}
      focusRow=${rows?.length ? rows : null} choose=${show} />
    ${Below && html`<${Below} record=${record.record} kind=${view.kind} view=${view} choose=${show} />`}`}
    <${Numbers} panel=${panel} />
  </section>
  <${SidePanel}>${first}
    <${Group} title="What is shown">
      ${!view.quantity.is_joined && html`<${HeadPicker} one=${one} numbers=${given} view=${view} scale=${scale}
        stops=${stops} choose=${show} />`}
      <${Controls} record=${record} view=${view} params=${params} change=${change} />
      <p class="quiet small shown">${view.quantity.text}</p></${Group}>
    ${last?.(panel, view)}
    <${Group} title="What to make of it"><p class="quiet small">${one.mechanism && `${view.kind}: ${one.mechanism}. `}${
        one.mask && `Who may see whom: ${one.mask}. `}Attention shows where a
      model read, not why it answered as it did.</p></${Group}></${SidePanel}>`;
}

function piecesOf(tokens, view, place, panel) {
  const name = panel.queries[place];
  if (view.unit === "pieces" && !view.isHiding) return [place];
  if (view.isHiding) return [];
  return tokens.words.flatMap((word, i) => (word === place && name != null ? [i] : []));
}
