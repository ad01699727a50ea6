// Drawing the atlas: tiles, strips of tokens along both edges, what each key receives, lines and links.

import { pixelOf } from "./camera.js";
import { painted, PIXELS } from "./tiles.js";

export const STRIP = 84;
const PROFILE = 34, TEXT = 11;
// the budget for colouring tiles, in milliseconds per frame
const PAINTING = 8;

// A missing tile is drawn from the finest coarser one that has arrived. Colouring takes time: tiles
// beyond this frame's budget wait for the next one. Returns whether some tiles wait.
function drawTiles(context, tiles, camera, look, wide, high) {
  const { zoom } = camera, { queries, keys } = pixelOf(camera.size, zoom);
  const long = PIXELS * keys * camera.scale, tall = PIXELS * queries * camera.tall;
  const until = performance.now() + PAINTING;
  let isWaiting = false;
  context.imageSmoothingEnabled = false;
  for (const [, x, y] of camera.tiles(wide, high)) {
    const { x: left, y: top } = camera.point(y * PIXELS * queries, x * PIXELS * keys, wide, high);
    for (let up = 0; up <= zoom; up += 1) {
      // rows of this tile for one of the coarser; a short map has as many rows at every zoom
      const rows = pixelOf(camera.size, zoom - up).queries / queries;
      const tile = tiles.get(zoom - up, x >> up, Math.floor(y / rows));
      if (tile?.isEmpty) {
        context.fillStyle = look.maskedCss;
        context.fillRect(left, top, long, tall);
        break;
      }
      if (!tile) continue;
      const isLate = tile.look !== look.name && performance.now() > until;
      isWaiting ||= isLate;
      const picture = isLate ? tile.picture : painted(tile, look);
      if (!picture) continue;
      const part = PIXELS / 2 ** up, down = PIXELS / rows;
      context.drawImage(picture, (x & (2 ** up - 1)) * part, (y % rows) * down, part, down, left, top, long, tall);
      break;
    }
  }
  return isWaiting;
}

function drawNumbers(context, tiles, camera, look, wide, high) {
  if (camera.scale < 34) return;
  const low = camera.cell(0, 0, wide, high), top = camera.cell(wide, high, wide, high);
  context.font = "10px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let q = Math.max(0, Math.floor(low.query)); q < Math.min(top.query, camera.size.queries); q += 1) {
    for (let k = Math.max(0, Math.floor(low.key)); k < Math.min(top.key, camera.size.keys); k += 1) {
      const weight = weightAt(tiles, q, k);
      if (weight == null || weight < 0) continue;
      const { x, y } = camera.point(q + 0.5, k + 0.5, wide, high);
      const allowed = allowedAt(tiles, q, k);
      context.fillStyle = look.inkOf(weight, allowed);
      context.fillText(weight < 0.0001 && weight > 0 ? weight.toExponential(0) : weight.toFixed(4), x, y);
    }
  }
}

// the weight of a cell: null if its tile has not arrived, −1 if it is masked
export function weightAt(tiles, query, key) {
  const tile = tiles.get(tiles.maxZoom, Math.floor(key / PIXELS), Math.floor(query / PIXELS));
  if (!tile) return null;
  return tile.isEmpty ? -1 : tile.values[(query % PIXELS) * PIXELS + (key % PIXELS)];
}

export function allowedAt(tiles, query, key) {
  return tiles.get(tiles.maxZoom, Math.floor(key / PIXELS), Math.floor(query / PIXELS))?.allowed?.[query % PIXELS];
}

function step(scale) {
  const rough = 70 / scale, power = 10 ** Math.floor(Math.log10(rough));
  return Math.max(1, [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough));
}

function drawStrip(context, names, from, to, offsetOf, scale, colours, isAcross) {
  context.fillStyle = colours.ink;
  context.font = `${TEXT}px system-ui, sans-serif`;
  const isText = scale >= TEXT;
  const every = isText ? 1 : step(scale);
  // round numbers, counted from 1, and 1 itself
  const first = Math.max(every === 1 ? 1 : 0, Math.floor((from + 1) / every));
  const last = Math.min(to, names.length) / every;
  for (let n = first; n <= last; n += 1) {
    const i = Math.max(n * every - 1, 0);
    const said = isText ? names[i] : String(i + 1), at = offsetOf(i + 0.5);
    context.save();
    context.translate(isAcross ? at : STRIP - 6, isAcross ? STRIP - 6 : at);
    if (isAcross) context.rotate(-Math.PI / 2);
    context.textAlign = isAcross ? "left" : "right";
    context.textBaseline = "middle";
    context.fillText(said, 0, 0, STRIP - 10);
    context.restore();
  }
}

// draws the whole atlas, and returns whether some tiles are still to be coloured
export function drawAtlas(canvas, { tiles, camera, look, colours, tokens, profile, marks, found }) {
  const { width, height } = canvas, [wide, high] = [width - STRIP, height - STRIP];
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, width, height);
  context.save();
  context.translate(STRIP, STRIP);
  context.beginPath();
  context.rect(0, 0, wide, high);
  context.clip();
  const isWaiting = drawTiles(context, tiles, camera, look, wide, high);
  drawNumbers(context, tiles, camera, look, wide, high);
  const line = (isRow, place, colour, size) => {
    const { x, y } = camera.point(isRow ? place : 0, isRow ? 0 : place, wide, high);
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.strokeRect(isRow ? -5 : x, isRow ? y : -5, isRow ? wide + 10 : Math.max(camera.scale, 1),
      isRow ? Math.max(camera.tall, 1) : high + 10);
  };
  found.keys.forEach((place) => line(false, place, colours.found, 1));
  found.queries.forEach((place) => line(true, place, colours.found, 1));
  if (marks) { line(true, marks.query, colours.ink, 1.5); line(false, marks.key, colours.ink, 1.5); }
  context.restore();
  const low = camera.cell(0, 0, wide, high), top = camera.cell(wide, high, wide, high);
  if (profile) drawProfile(context, profile, camera, low, top, wide, high, colours);
  context.save();
  context.beginPath(); context.rect(STRIP - TEXT, PROFILE, wide + TEXT, STRIP - PROFILE); context.clip();
  drawStrip(context, tokens.keys, low.key, top.key, (i) => STRIP + camera.point(0, i, wide, high).x,
    camera.scale, colours, true);
  context.restore();
  context.save();
  context.beginPath(); context.rect(0, STRIP - TEXT, STRIP, high + TEXT); context.clip();
  drawStrip(context, tokens.queries, low.query, top.query, (i) => STRIP + camera.point(i, 0, wide, high).y,
    camera.tall, colours, false);
  context.restore();
  context.strokeStyle = colours.edge;
  context.lineWidth = 1;
  context.strokeRect(STRIP - 0.5, STRIP - 0.5, wide, high);
  context.fillStyle = colours.quiet;
  context.font = `${TEXT}px system-ui, sans-serif`;
  context.textAlign = "right";
  context.fillText("key →", STRIP - 22, 48);
  context.fillText("query ↓", STRIP - 22, 66);
  return isWaiting;
}

function drawProfile(context, { bars, most }, camera, low, top, wide, high, colours) {
  const bin = camera.size.keys / bars.length;
  context.fillStyle = colours.bars;
  context.save();
  context.beginPath(); context.rect(STRIP, 0, wide, PROFILE); context.clip();
  const last = Math.min(Math.ceil(top.key / bin), bars.length);
  for (let i = Math.max(0, Math.floor(low.key / bin)); i < last; i += 1) {
    const { x } = camera.point(0, i * bin, wide, high), tall = bars[i] / most * (PROFILE - 4);
    context.fillRect(STRIP + x, PROFILE - tall, Math.max(bin * camera.scale, 1), tall);
  }
  context.restore();
}

export function drawMinimap(canvas, { tiles, camera, look, colours }, wide, high) {
  const context = canvas.getContext("2d"), tile = tiles.get(0, 0, 0), { queries, keys } = camera.size;
  const side = canvas.width / Math.max(queries, keys), pixel = pixelOf(camera.size, 0);
  // a short map fills half of the height
  const row = camera.size.least ? canvas.height / 2 / queries : side;
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  if (tile && !tile.isEmpty) {
    context.drawImage(painted(tile, look), 0, 0, PIXELS * pixel.keys * side, PIXELS * pixel.queries * row);
  }
  const low = camera.cell(0, 0, wide, high);
  context.strokeStyle = colours.found;
  context.lineWidth = 2;
  context.strokeRect(low.key * side, low.query * row, Math.max(wide / camera.scale * side, 4),
    Math.max(high / camera.tall * row, 4));
}
