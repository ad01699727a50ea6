// The page of a long text: its map from above. Every number stands in the page, in pictures of 4-byte
// numbers as Python computed them.

import { html, render, useMemo, useState } from "./drawing/vendor/preact.js";
import { LONG_SCALES, stopsOf, topOf } from "./drawing/colours.js";
import { Select } from "./drawing/controls.js";
import { useMedia } from "./drawing/focus.js";
import { tellHeight } from "./drawing/frame_height.js";
import { HeatMap } from "./drawing/heatmap.js";
import { Legend } from "./drawing/words.js";

const record = JSON.parse(document.getElementById("data").textContent);
// pieces of text shown around those of a pixel; pixels of a map's longer side, and the most of one cell
const AROUND = 12, SIDE = 512, LARGEST = 24;

const unpacked = (text) =>
  new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

const titleOf = ([title, count]) => `${title}, ${count.toLocaleString("en")} pieces`;

function panelOf({ name, shape: [rows, columns], numbers, allowed }) {
  const flat = unpacked(numbers);
  const weights = Array.from({ length: rows }, (_, i) => flat.subarray(i * columns, (i + 1) * columns));
  // below zero: masked
  const visible = weights.map((row) => row.map((weight) => Number(weight >= 0)));
  return { title: name, weights, visible, hasMasked: flat.some((weight) => weight < 0),
    allowed: unpacked(allowed), queries: Array(rows).fill(""), keys: Array(columns).fill(""), queryTitle: titleOf(record.queries), keyTitle: titleOf(record.keys) };
}

function range(place, scale, count) {
  const first = place * scale, last = Math.min(first + scale, count);
  return scale === 1 ? `${first + 1}` : `${first + 1}–${last}`;
}

function cellText({ scale: [down, across] }, { weights, allowed }, { query, key }) {
  const weight = weights[query][key], lift = weight * allowed[query];
  return `queries ${range(query, down, record.queries[1])} → keys ${range(key, across, record.keys[1])}: `
    + (weight < 0 ? "masked" : `heaviest ${weight.toPrecision(6)} (lift ${lift.toPrecision(3)})`);
}

function around(pieces, place, count) {
  const first = place * count, end = Math.min(first + count, pieces.length), half = AROUND / 2;
  const cut = (from, to) => pieces.slice(Math.max(from, 0), to).join("").replaceAll("▁", " ");
  const all = count > AROUND ? `${cut(first, first + half)} … ${cut(end - half, end)}` : cut(first, end);
  return `${cut(first - AROUND, first)}⟦${all}⟧${cut(end, end + AROUND)}`;
}

function Page() {
  const [number, setNumber] = useState(0), [name, setName] = useState("lift");
  const cell = useState({ query: 0, key: 0 }), seen = useState(false);
  const [isTouched, setTouched] = useState(false);
  const isDark = useMedia("(prefers-color-scheme: dark)"), picture = record.pictures[number];
  const stops = useMemo(() => stopsOf(record.ramps[isDark ? "dark" : "light"]), [isDark]);
  const panel = useMemo(() => panelOf(picture), [picture]), scale = LONG_SCALES[name];
  const top = useMemo(() => topOf(scale, panel), [scale, panel]);
  const [rows, columns] = picture.shape, [high, wide] = picture.scale, side = `${high} × ${wide} cells a pixel`;
  const large = (count) => Math.min(Math.max(Math.floor(SIDE / count), 1), LARGEST);
  if (seen[0] && !isTouched) setTouched(true);
  const text = (which, place, count) => isTouched && around(record.pieces[which],
    Math.min(place, picture.shape[which === "query" ? 0 : 1] - 1), count);
  return html`<div class="bar"><${Select} label="picture" value=${number}
      options=${record.pictures.map((one, i) => [i, one.name])} onChange=${(next) => setNumber(Number(next))} />
    <${Select} label="colours by" value=${name} onChange=${setName}
      options=${Object.entries(LONG_SCALES).map(([key, one]) => [key, one.name])} /></div>
    <p class="quiet exactness">${picture.is_exact ? `${side}, every query`
      : `${side}, ${picture.rows} of ${high} queries of each`}</p>
    <${Legend} top=${top} stops=${stops} scale=${scale} digits=${(one) => one.toPrecision(3)}
      hasMasked=${panel.hasMasked} />
    <h2 class="what">${picture.name}</h2>
    <${HeatMap} panel=${panel} scale=${scale} top=${top} stops=${stops} hasMargins=${false} linked=${{ cell, seen }}
      told=${(one, here) => cellText(picture, one, here)} size=${{ wide: large(columns), tall: large(rows) }}
      extent=${`${rows} by ${columns} pixels`} hint="Point at the map, or reach it with Tab; arrow keys move." />
    <div class="texts"><p><b>query</b> <span class="query" dir="auto">${text("query", cell[0].query, high)}</span></p>
      <p><b>key</b> <span class="key" dir="auto">${text("key", cell[0].key, wide)}</span></p></div>`;
}

render(html`<${Page} />`, document.getElementById("look"));
tellHeight();
