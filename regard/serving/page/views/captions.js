// A picture, its caption, and where each word looked. The map lies on the picture as it was sent; a
// cell shows what the model saw there.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { colour, css, scaleOf } from "../parts/colours.js";
import { Check, Select } from "../parts/controls.js";
import { entropy, heaviest, largest, quoted, written } from "../parts/numbers.js";
import { numbered } from "../parts/panel.js";
import { Playback } from "../parts/playback.js";
import { get, picture, send } from "../parts/server.js";
import { useAnswer, useFocus } from "../parts/state.js";
import { Numbers } from "../parts/table.js";
import { Legend } from "../parts/words.js";

// of a canvas, however large the picture is
const MOST_SIDE = 1600;

// layer and head count from 1; "mean" is the mean of all, as Python has it
function mapsOf(record, layer, head) {
  const { weights, mean } = record;
  if (layer === "mean" && head === "mean") return mean;
  const some = (place, list) => (place === "mean" ? list : [list[place - 1]]);
  const chosen = some(layer, weights).flatMap((heads) => some(head, heads));
  return record.words.map((_, t) => mean[t].map((row, i) => row.map((__, j) =>
    chosen.reduce((sum, one) => sum + one[t][i][j], 0) / chosen.length)));
}

const OVERLAYS = {
  heat: (context, box, share, stops, opacity) => {
    context.globalAlpha = opacity * share;
    context.fillStyle = css(colour(stops, 0.35 + 0.65 * share));
    context.fillRect(...box);
  },
  spotlight: (context, box, share, stops, opacity) => {
    context.globalAlpha = opacity * (1 - share);
    context.fillStyle = "#000";
    context.fillRect(...box);
  },
  cells: (context, box, share, stops) => {
    context.globalAlpha = 1;
    context.fillStyle = css(colour(stops, share));
    context.fillRect(...box);
  },
};

function draw(canvas, record, map, top, { overlay, opacity, stops, isSmooth }) {
  const { width, height } = record.picture, { rows, columns, covered } = record.grid;
  const shrink = Math.min(1, MOST_SIDE / Math.max(width, height));
  Object.assign(canvas, { width: Math.ceil(width * shrink), height: Math.ceil(height * shrink) });
  const context = canvas.getContext("2d");
  context.scale(canvas.width / width, canvas.height / height);
  const [wide, high] = [(covered.right - covered.left) / columns, (covered.bottom - covered.top) / rows];
  const fine = isSmooth ? 8 : 1;
  context.save();
  context.beginPath();
  context.rect(record.shown.left, record.shown.top, record.shown.right - record.shown.left,
    record.shown.bottom - record.shown.top);
  context.clip();
  for (let i = 0; i < rows * fine; i += 1) {
    for (let j = 0; j < columns * fine; j += 1) {
      const weight = isSmooth ? between(map, (i + 0.5) / fine - 0.5, (j + 0.5) / fine - 0.5) : map[i][j];
      const box = [covered.left + j * wide / fine, covered.top + i * high / fine, wide / fine, high / fine];
      OVERLAYS[overlay](context, box, Math.min(weight / top, 1), stops, opacity);
    }
  }
  context.restore();
}

// bilinear, between the centres of cells
function between(map, y, x) {
  const limited = (place, count) => Math.min(Math.max(place, 0), count - 1);
  const [i, j] = [Math.floor(y), Math.floor(x)], [v, u] = [y - i, x - j];
  const at = (a, b) => map[limited(a, map.length)][limited(b, map[0].length)];
  return (1 - v) * ((1 - u) * at(i, j) + u * at(i, j + 1)) + v * ((1 - u) * at(i + 1, j) + u * at(i + 1, j + 1));
}

function Overlay({ record, map, top, wish, onCell, label }) {
  const canvas = useRef(null);
  useEffect(() => { draw(canvas.current, record, map, top, wish); });
  const pointed = (event) => {
    const frame = event.currentTarget.getBoundingClientRect(), { covered, rows, columns } = record.grid;
    const across = (event.clientX - frame.left) / frame.width * record.picture.width;
    const down = (event.clientY - frame.top) / frame.height * record.picture.height;
    const row = Math.floor((down - covered.top) / (covered.bottom - covered.top) * rows);
    const column = Math.floor((across - covered.left) / (covered.right - covered.left) * columns);
    if (row >= 0 && row < rows && column >= 0 && column < columns) onCell({ row, column });
  };
  return html`<div class="photo"><img src=${picture(record.record)} alt=${label}
      width=${record.picture.width} height=${record.picture.height} />
    <canvas ref=${canvas} aria-hidden="true" onClick=${onCell && pointed}></canvas></div>`;
}

function Seen({ record, params, change, stops }) {
  const [cell, setCell] = useState(null);
  const layer = numbered(params.layer, record.weights.length), head = numbered(params.head, record.weights[0].length);
  const maps = mapsOf(record, layer, head);
  const focus = useFocus(params.pin || "q1", (pin) => change({ pin }));
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
  const counts = (count) => [["mean", "mean"], ...[...Array(count).keys()].map((i) => [i + 1, i + 1])];
  const ranking = cell && heaviest(maps.map((map) => map[cell.row][cell.column]));
  const panel = { title: "words at cells", queries: record.words, keys: [...Array(rows * columns).keys()]
    .map((i) => `${Math.floor(i / columns) + 1}, ${i % columns + 1}`), queryTitle: "query (word)",
  keyTitle: "key (cell: row, column)", weights: maps.map(flat) };
  const walk = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in steps)) return;
    const now = cell ?? { row: 0, column: 0 }, [down, across] = steps[event.key];
    setCell({ row: Math.min(Math.max(now.row + down, 0), rows - 1),
      column: Math.min(Math.max(now.column + across, 0), columns - 1) });
    event.preventDefault();
  };
  return html`${record.warning && html`<p class="note">${record.warning}</p>`}
    <div class="bar">
      <${Select} label="overlay" value=${overlay} options=${Object.keys(OVERLAYS).map((one) => [one, one])}
        onChange=${(next) => change({ overlay: next })} />
      <label>opacity <input type="range" min="0.1" max="1" step="0.05" value=${opacity}
        onInput=${(event) => change({ opacity: event.target.value })} /></label>
      <${Check} label="smoothed for display" isOn=${isSmooth}
        onChange=${(isOn) => change({ smooth: isOn ? "on" : "" })} />
      <${Check} label="one scale for all words" isOn=${isCommon}
        onChange=${(isOn) => change({ common: isOn ? "on" : "" })} />
      ${record.weights.length > 1 && html`<${Select} label="layer" value=${layer}
        options=${counts(record.weights.length)} onChange=${(next) => change({ layer: next })} />`}
      ${record.weights[0].length > 1 && html`<${Select} label="head" value=${head}
        options=${counts(record.weights[0].length)} onChange=${(next) => change({ head: next })} />`}</div>
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
            wish=${{ ...wish, isSmooth: false }} label="" /></span><bdi>${word}</bdi></button>`)}</div>
      <${Playback} panel=${panel} focus=${focus} change=${change} isWords=${true} />
      <p class="readout" role="status">${quoted(record.words[place])} looks most at row
        ${" "}${Math.floor(strongest / columns) + 1}, column ${strongest % columns + 1} of ${rows} by ${columns}:
        ${" "}<span class="cell-weight">${written(weight)}</span>; entropy ${spread.toFixed(2)} of
        ${" "}${Math.log(rows * columns).toFixed(2)} nats${change0 == null ? ""
          : `; ${(100 * change0).toFixed(1)} % of the weight elsewhere than for the word before`}${
          record.gates ? `; gate ${record.gates[place].toFixed(2)}` : ""}.</p>
      <${Legend} top=${top} stops=${stops} scale=${scaleOf("linear")} />
      <p role="status">${cell ? html`Row ${cell.row + 1}, column ${cell.column + 1} is looked at by ${
        ranking.slice(0, 5).map(([w, i]) => `${quoted(record.words[i])} ${written(w)}`).join(", ")}.`
        : "Click a place of the picture to see which words look at it."}</p></div></div>
    <${Numbers} panel=${panel} />`;
}

export function Captions({ run, info, params, change, stops }) {
  const [sent, setSent] = useState(null);
  const example = Math.max(Number(params.example || 1) - 1, 0);
  const own = useAnswer(() => sent && run && send(["runs", run, "caption"], sent), [run, sent]);
  const ready = useAnswer(() => !sent && run && info?.examples.length > example
    && get(["runs", run, "caption", example]), [run, info, example, sent]);
  const seen = sent ? own : ready;
  const take = (file) => { if (file) { setSent(file); change({ pin: "" }); } };
  return html`<div class="ask" onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => { event.preventDefault(); take(event.dataTransfer.files[0]); }}>
    <label>A picture of your own <input type="file" accept="image/*"
      onChange=${(event) => take(event.target.files[0])} /></label>
    <div class="offers"><span>From this run's data:</span>${(info?.examples ?? []).map((name, i) => html`
      <button type="button" key=${name} onClick=${() => { setSent(null); change({ example: i + 1, pin: "" }); }}>
        ${name.split("/").at(-1)}</button>`)}</div>
    <span role="status" class="quiet">${seen.isBusy ? "The model is at work …" : ""}</span></div>
    ${seen.error && html`<p class="error" role="alert">${seen.error}</p>`}
    ${seen.value && seen.value.words.length > 0 && html`<${Seen} key=${seen.value.record} record=${seen.value}
      params=${params} change=${change} stops=${stops} />`}
    ${seen.value && !seen.value.words.length && html`<p class="note">The caption is empty.</p>`}`;
}
