// A picture, its caption, and where each word looked. Maps lie over the original picture; a cell
// covers what the model saw there.

import { html, useEffect, useRef, useState } from "../drawing/vendor/preact.js";
import { cellAt, mapsOf, paintCells } from "../drawing/cells.js";
import { colour, css, SCALES, veil } from "../drawing/colours.js";
import { Check, Range, Select } from "../drawing/controls.js";
import { useFocus } from "../drawing/focus.js";
import { counted } from "../parts/head_choice.js";
import { ARROWS, entropy, heaviest, largest, limited, percent, quoted, written } from "../drawing/numbers.js";
import { numbered } from "../drawing/panel.js";
import { Playback } from "../drawing/playback.js";
import { ColourMaps } from "../parts/colour_maps.js";
import { get, picture, send } from "../parts/server.js";
import { placeOf, useAnswer } from "../parts/state.js";
import { Group, SidePanel } from "../drawing/side_panel.js";
import { Numbers } from "../drawing/table.js";
import { Legend } from "../drawing/words.js";

// the most pixels of a canvas's longer side, for pictures of any size
const MOST_SIDE = 1600, SHEET_SIDE = 400, THUMB_SIDE = 96;

// the fill style of a cell by its share of the largest weight
const OVERLAYS = {
  heat: (share, stops, opacity) => veil(colour(stops, 0.35 + 0.65 * share), opacity * share),
  spotlight: (share, stops, opacity) => veil([0, 0, 0], opacity * (1 - share)),
  cells: (share, stops) => css(colour(stops, share)),
};

function draw(canvas, record, map, top, { overlay, opacity, stops, isSmooth, side = MOST_SIDE }) {
  const { width, height } = record.picture, shrink = Math.min(1, side / Math.max(width, height));
  Object.assign(canvas, { width: Math.ceil(width * shrink), height: Math.ceil(height * shrink) });
  paintCells(record, canvas.getContext("2d"), isSmooth ? finer(map) : map, top,
    (share) => OVERLAYS[overlay](share, stops, opacity));
}

// each cell divided into 8 by 8
const finer = (map) => Array.from({ length: 8 * map.length }, (_, i) => Array.from({ length: 8 * map[0].length },
  (__, j) => between(map, (i + 0.5) / 8 - 0.5, (j + 0.5) / 8 - 0.5)));

// bilinear, between the centres of cells
function between(map, y, x) {
  const [i, j] = [Math.floor(y), Math.floor(x)], [v, u] = [y - i, x - j];
  const at = (a, b) => map[limited(a, map.length)][limited(b, map[0].length)];
  return (1 - v) * ((1 - u) * at(i, j) + u * at(i, j + 1)) + v * ((1 - u) * at(i + 1, j) + u * at(i + 1, j + 1));
}

function Overlay({ record, map, top, wish, onCell, label }) {
  const canvas = useRef(null);
  useEffect(() => { draw(canvas.current, record, map, top, wish); });
  const pointed = (event) => {
    const found = cellAt(record, event, event.currentTarget);
    if (found) onCell(found);
  };
  return html`<div class="photo" style=${{ "--shape": record.picture.width / record.picture.height }}><img src=${picture(record.record)} alt=${label}
      width=${record.picture.width} height=${record.picture.height} />
    <canvas ref=${canvas} aria-hidden="true" onClick=${onCell && pointed}></canvas></div>`;
}

// the word whose map is least spread, which is in focus until the reader chooses another
const sharpest = (maps) => heaviest(maps.map((map) => -entropy(map.flat())))[0][1];

function Seen({ record, params, change, stops, ramps }) {
  const [cell, setCell] = useState(null);
  const layer = numbered(params.layer, record.weights.length), head = numbered(params.head, record.weights[0].length);
  const maps = mapsOf(record, layer, head);
  const focus = useFocus(params.pin || `q${sharpest(maps) + 1}`, (pin) => change({ pin }));
  const place = Math.min(focus.at.find(({ side }) => side === "query")?.place ?? 0, record.words.length - 1);
  const [overlay, opacity] = [params.overlay in OVERLAYS ? params.overlay : "heat", Number(params.opacity || 0.7)];
  const isCommon = params.common === "on", isSmooth = params.smooth === "on";
  const top = (isCommon ? Math.max(...maps.map(largest)) : largest(maps[place])) || 1;
  const wish = { overlay, opacity, stops, isSmooth };
  const flat = (map) => map.flat();
  const [[weight, strongest]] = heaviest(flat(maps[place]));
  const { rows, columns } = record.grid;
  const spread = entropy(flat(maps[place]));
  const change0 = place > 0 ? flat(maps[place]).reduce((sum, w, i) =>
    sum + Math.abs(w - flat(maps[place - 1])[i]), 0) / 2 : null;
  const counts = (count) => [["mean", "mean"], ...counted(count)];
  const ranking = cell && heaviest(maps.map((map) => map[cell.row][cell.column]));
  const panel = { title: "words at cells", queries: record.words, keys: [...Array(rows * columns).keys()]
    .map((i) => `${Math.floor(i / columns) + 1}, ${i % columns + 1}`), queryTitle: "query (word)",
  keyTitle: "key (cell: row, column)", weights: maps.map(flat) };
  const walk = (event) => {
    if (!(event.key in ARROWS)) return;
    const now = cell ?? { row: 0, column: 0 }, [down, across] = ARROWS[event.key];
    setCell({ row: limited(now.row + down, rows), column: limited(now.column + across, columns) });
    event.preventDefault();
  };
  return html`<section class="picture" aria-label="where each word looked">${record.warning && html`<p class="note">${record.warning}</p>`}
    <div class="captioned"><div role="application" tabIndex="0" onKeyDown=${walk} aria-label=${
        `Picture in ${rows} by ${columns} cells. Arrow keys choose a cell and say which words look at it.`}>
      <${Overlay} record=${record} map=${maps[place]} top=${top} wish=${wish} onCell=${setCell}
        label=${`The picture, captioned: ${record.caption}`} /></div>
    <div><p class="caption" dir="auto">${record.caption}</p>
      <div class="line mini" role="group" aria-label="words of the caption">${record.words.map((word, i) => html`
        <button type="button" key=${i} aria-pressed=${String(i === place)}
          onPointerEnter=${() => focus.setHover({ side: "query", place: i })}
          onPointerLeave=${() => focus.setHover(null)}
          onClick=${() => change({ pin: `q${i + 1}` })}>
          <span class="thumb"><${Overlay} record=${record} map=${maps[i]} top=${largest(maps[i]) || 1}
            wish=${{ ...wish, isSmooth: false, side: THUMB_SIDE }} label="" /></span><bdi>${word}</bdi></button>`)}</div>
      <${Playback} panel=${panel} focus=${focus} change=${change} isWords=${true} />
      <p class="readout" role="status">${quoted(record.words[place])} looks most at row
        ${" "}${Math.floor(strongest / columns) + 1}, column ${strongest % columns + 1} of ${rows} by ${columns}:
        ${" "}<span class="cell-weight">${written(weight)}</span>; entropy ${spread.toFixed(2)} of
        ${" "}${Math.log(rows * columns).toFixed(2)} nats${change0 == null ? ""
          : `; ${percent(change0)} of the weight elsewhere than for the word before`}${
          record.gates ? `; gate ${record.gates[place].toFixed(2)}` : ""}.</p>
      <${Legend} top=${top} stops=${stops} scale=${SCALES.linear} />
      <p role="status">${cell ? html`Row ${cell.row + 1}, column ${cell.column + 1} is looked at by ${
        ranking.slice(0, 5).map(([w, i]) => `${quoted(record.words[i])} ${written(w)}`).join(", ")}.`
        : "Click a place of the picture to see which words look at it."}</p></div></div>
    ${params.sheet === "on" && html`<${Sheet} record=${record} maps=${maps} place=${place} isCommon=${isCommon}
      wish=${wish} choose=${(i) => change({ pin: `q${i + 1}` })} />`}
    <${Numbers} panel=${panel} /></section>
    <${SidePanel}><${Group} title="What is shown"><div class="bar">
      <${Select} label="overlay" value=${overlay} options=${Object.keys(OVERLAYS).map((one) => [one, one])}
        onChange=${(next) => change({ overlay: next })} />
      <${Range} label="opacity" low="0.1" high="1" step="0.05" value=${opacity}
        onInput=${(next) => change({ opacity: next })} />
      <${Check} label="smoothed for display" isOn=${isSmooth}
        onChange=${(isOn) => change({ smooth: isOn ? "on" : "" })} />
      <${Check} label="one scale for all words" isOn=${isCommon}
        onChange=${(isOn) => change({ common: isOn ? "on" : "" })} />
      <${Check} label="contact sheet" isOn=${params.sheet === "on"}
        onChange=${(isOn) => change({ sheet: isOn ? "on" : "" })} />
      ${record.weights.length > 1 && html`<${Select} label="layer" value=${layer}
        options=${counts(record.weights.length)} onChange=${(next) => change({ layer: next })} />`}
      ${record.weights[0].length > 1 && html`<${Select} label="head" value=${head}
        options=${counts(record.weights[0].length)} onChange=${(next) => change({ head: next })} />`}</div></${Group}>
      <${ColourMaps} ramps=${ramps} params=${params} change=${change} />
      <${Group} title="What to make of it"><p class="quiet small">The map lies on the picture as it was sent; each cell shows what the
        model saw there. Attention shows where a model read, not why it answered as it did.</p></${Group}></${SidePanel}>`;
}

// all words at once, as in figures of papers
function Sheet({ record, maps, place, isCommon, wish, choose }) {
  const most = Math.max(...maps.map(largest)) || 1;
  return html`<h2>Contact sheet</h2>
    <p class="quiet small">${isCommon ? `One scale for all words, up to ${written(most)}.`
      : "Each word has its own scale, up to the number behind it."}</p>
    <ol class="sheet">${record.words.map((word, i) => html`<li key=${i}><button type="button"
      aria-pressed=${String(i === place)} onClick=${() => choose(i)}>
      <${Overlay} record=${record} map=${maps[i]} top=${isCommon ? most : largest(maps[i]) || 1}
        wish=${{ ...wish, side: SHEET_SIDE }} label="" />
      <span><bdi>${word}</bdi> <small>${written(largest(maps[i]))}</small></span></button></li>`)}</ol>`;
}

function Picture({ info, take, show, shown, isBusy }) {
  return html`<div class="ask" onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => { event.preventDefault(); take(event.dataTransfer.files[0]); }}>
    <div class="ask-row pictures"><label class="main">${info?.verb ?? "Caption"} a picture of your own <input type="file" accept="image/*"
      onChange=${(event) => take(event.target.files[0])} /></label><span class="quiet small">or drop one here</span></div>
    <div class="ask-more">${info?.why_no_examples ? html`<span class="quiet">${info.why_no_examples}</span>`
      : html`<div class="offers scroll"><span>From this run's data:</span>${(info?.examples ?? []).map((name, i) => html`
        <button type="button" key=${name} aria-pressed=${String(i === shown)} onClick=${() => show(i)}>${name.split("/").at(-1)}</button>`)}</div>`}
    <span role="status" class="quiet">${isBusy ? "The model is at work …" : ""}</span></div></div>`;
}

export function Captions({ served, run, info, params, change, stops, ramps }) {
  const [sent, setSent] = useState(null);
  const saved = served.captions.includes(params.record) ? params.record : run ? "" : served.captions[0];
  const example = placeOf(params.example);
  const own = useAnswer(() => !saved && sent && run && send(["runs", run, "caption"], sent), [run, sent, saved]);
  const ready = useAnswer(() => !saved && !sent && run && info?.examples.length > example
    && get(["runs", run, "caption", example]), [run, info, example, sent, saved]);
  const kept = useAnswer(() => saved && get(["captions", saved]), [saved]);
  const seen = saved ? kept : sent ? own : ready;
  const take = (file) => { if (file) { setSent(file); change({ pin: "" }); } };
  const show = (i) => { setSent(null); change({ example: i + 1, pin: "" }); };
  return html`<div class="workbench"><div>${served.captions.length > 0 && html`<div class="bar"><${Select} label="caption of" value=${saved}
      options=${[...(run ? [["", "a picture for the run"]] : []), ...served.captions.map((each) => [each, each])]}
      onChange=${(record) => change({ record, pin: "", layer: "", head: "" })} /></div>`}
    ${!saved && html`<${Picture} info=${info} take=${take} show=${show} shown=${sent ? -1 : example} isBusy=${seen.isBusy} />`}
    ${seen.error && html`<p class="error" role="alert">${seen.error}</p>`}
    ${seen.value && !seen.value.words.length && html`<p class="note">The caption is empty.</p>`}</div>
    ${seen.value && seen.value.words.length > 0 && html`<${Seen} key=${seen.value.record} record=${seen.value}
      params=${params} change=${change} stops=${stops} ramps=${ramps} />`}</div>`;
}
