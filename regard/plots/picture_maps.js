// Maps over pictures: their numbers, for one layer and head or the mean, and how they are drawn.
// The page's JSON holds every number; means over layers and heads are computed from them.

import { mapsOf, paintCells, shareOf, spotOf } from "./drawing/cells.js";
import { colour, stopsOf, veil } from "./drawing/colours.js";
import { entropy, MEAN, said, whereOf } from "./drawing/numbers.js";

const { records, overlays, spreads, overlay: first } =
  JSON.parse(document.getElementById("data").textContent);
const BLOCKY = 3;
const state = { overlay: first, scale: "word", layer: MEAN, head: MEAN };
const make = (tag, text, parts = {}) =>
  Object.assign(document.createElement(tag), { textContent: text ?? "" }, parts);

// numbers

// a single layer or head equals its mean
const fitting = (place, count) => (count === 1 ? 0 : place < count ? place : MEAN);

const chosenOf = ({ weights }) =>
  [fitting(state.layer, weights.length), fitting(state.head, weights[0].length)];

// every word's cells, row by row, for the layer and head that were chosen
const cellsOf = (record) => mapsOf(record, ...chosenOf(record).map(said)).map((map) => map.flat());

const titleOf = (record) => "cross attention, "
  + whereOf(...chosenOf(record), record.weights.length, record.weights[0].length);

function spreadOf(cells) {
  const sum = cells.reduce((total, weight) => total + weight, 0) || 1;
  return Math.abs(entropy(cells.map((weight) => weight / sum)));
}

// the matrices that smooth, row by row
const flat = Object.fromEntries(Object.entries(spreads)
  .map(([side, rows]) => [side, { numbers: Float64Array.from(rows.flat()), fine: rows.length }]));

// down · cells · acrossᵀ
function smoothed(cells, { rows, columns }) {
  const down = flat[rows], across = flat[columns], half = new Float64Array(columns);
  const out = new Float32Array(down.fine * across.fine);
  for (let y = 0; y < down.fine; y += 1) {
    half.fill(0);
    for (let i = 0; i < rows; i += 1) {
      const share = down.numbers[y * rows + i];
      for (let j = 0; j < columns; j += 1) half[j] += share * cells[i * columns + j];
    }
    for (let x = 0; x < across.fine; x += 1) {
      let sum = 0;
      for (let j = 0; j < columns; j += 1) sum += across.numbers[x * columns + j] * half[j];
      out[y * across.fine + x] = sum;
    }
  }
  return { numbers: out, rows: down.fine, columns: across.fine };
}

// colours

// a colour and a density for every level from the smallest to the largest weight
function shadesOf({ ramp, density }) {
  const stops = stopsOf(ramp), bytes = new Uint8Array(4 * density.length);
  const styles = density.map((share, level) => {
    const mixed = colour(stops, level / (density.length - 1));
    bytes.set([...mixed, Math.round(255 * share)], 4 * level);
    return veil(mixed, share);
  });
  return { styles, pixels: new Uint32Array(bytes.buffer) };
}
const shades = Object.fromEntries(
  Object.entries(overlays).map(([name, one]) => [name, shadesOf(one)]));
const levelled = (share, table) => table[Math.round(share * (table.length - 1))];

function canvasOf(wide, high) {
  return make("canvas", "", { width: Math.max(1, wide), height: Math.max(1, high) });
}

// the picture below the map: as it is, or grey and dim
function groundOf(image, { is_grey: isGrey, bright }, longer) {
  const scale = longer / Math.max(image.naturalWidth, image.naturalHeight);
  const canvas = canvasOf(...[image.naturalWidth, image.naturalHeight]
    .map((side) => Math.round(side * scale)));
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = scale < BLOCKY;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (!isGrey) return canvas;
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height), { data } = pixels;
  for (let i = 0; i < data.length; i += 4) {
    data.fill(Math.floor(bright * (0.2126 * data[i] + 0.7152 * data[i + 1] + 0.0722 * data[i + 2])),
      i, i + 3);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function drawCells(record, context, cells, top, { styles }) {
  const { rows, columns } = record.grid;
  const map = Array.from({ length: rows }, (_, i) => cells.slice(i * columns, (i + 1) * columns));
  paintCells(record, context, map, top, (share) => levelled(share, styles));
}

function drawSmooth(record, context, map, top, { pixels }) {
  const fine = canvasOf(map.columns, map.rows), inner = fine.getContext("2d");
  const image = inner.createImageData(map.columns, map.rows);
  const out = new Uint32Array(image.data.buffer), { numbers } = map;
  for (let i = 0; i < out.length; i += 1) out[i] = levelled(shareOf(numbers[i], top), pixels);
  inner.putImageData(image, 0, 0);
  const whole = spotOf(record, context.canvas, record.grid.covered);
  const seen = spotOf(record, context.canvas, record.shown);
  context.save();
  context.beginPath();
  context.rect(seen.left, seen.top, seen.right - seen.left, seen.bottom - seen.top);
  context.clip();
  context.drawImage(fine, whole.left, whole.top, whole.right - whole.left,
    whole.bottom - whole.top);
  context.restore();
}

// what the model did not see
function hatch(record, context) {
  const { width, height } = context.canvas, spot = spotOf(record, context.canvas, record.shown);
  const [left, top, right, bottom] = [spot.left, spot.top, spot.right, spot.bottom]
    .map(Math.round);
  const step = Math.max(6, Math.round(Math.max(width, height) / 80));
  context.save();
  context.beginPath();
  context.rect(0, 0, width, top);
  context.rect(0, bottom, width, height - bottom);
  context.rect(0, top, left, bottom - top);
  context.rect(right, top, width - right, bottom - top);
  context.clip();
  context.fillStyle = "rgba(84,84,84,.8)";
  context.fillRect(0, 0, width, height);
  context.strokeStyle = "#333";
  context.lineWidth = Math.max(1, step / 8);
  context.beginPath();
  for (let x = -height; x < width; x += step) {
    context.moveTo(x, height);
    context.lineTo(x + height, 0);
  }
  context.stroke();
  context.restore();
}

// a map over its picture: on the ground, with what the model did not see hatched
function draw(record, canvas, ground, map, top) {
  const context = canvas.getContext("2d");
  Object.assign(canvas, { width: ground.width, height: ground.height });
  context.drawImage(ground, 0, 0);
  const lay = overlays[state.overlay].is_smooth ? drawSmooth : drawCells;
  lay(record, context, map, top, shades[state.overlay]);
  hatch(record, context);
}

export { records, overlays, state, make, fitting, cellsOf, titleOf, spreadOf, smoothed, groundOf, draw };
