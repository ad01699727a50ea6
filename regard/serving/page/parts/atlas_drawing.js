// Drawing the atlas: tiles, strips of tokens along both edges, what each key receives, lines and links.

import { painted, PIXELS } from "./tiles.js";

export const STRIP = 84;
const PROFILE = 34, TEXT = 11;

function drawTiles(context, tiles, camera, look, wide, high) {
  const zoom = camera.zoom(tiles.maxZoom);
  context.imageSmoothingEnabled = false;
  const place = (z, x, y) => {
    const side = PIXELS * 2 ** (tiles.maxZoom - z);
    const { x: left, y: top } = camera.point(y * side, x * side, wide, high);
    return [left, top, side * camera.scale];
  };
  // what is coarser and already here stands in for what is still to come
  for (let z = 0; z <= zoom; z += 1) {
    for (const [, x, y] of camera.tiles(z, tiles.maxZoom, wide, high)) {
      const tile = tiles.get(z, x, y);
      if (!tile) continue;
      const [left, top, side] = place(z, x, y);
      if (!tile.isEmpty) context.drawImage(painted(tile, look), left, top, side, side);
      else if (z === zoom) { context.fillStyle = look.maskedCss; context.fillRect(left, top, side, side); }
    }
  }
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
      context.fillStyle = look.inkOf(look.share(weight, allowed, look.top));
      context.fillText(weight < 0.001 && weight > 0 ? weight.toExponential(0) : weight.toFixed(3), x, y);
    }
  }
}

// the number of a cell, where its tile is here: null if it is not, −1 where it is masked
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

function drawStrip(context, names, from, to, offsetOf, camera, colours, isAcross) {
  context.fillStyle = colours.ink;
  context.font = `${TEXT}px system-ui, sans-serif`;
  const isText = camera.scale >= TEXT;
  const every = isText ? 1 : step(camera.scale);
  for (let i = Math.max(0, Math.ceil(from / every) * every); i < Math.min(to, names.length); i += every) {
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
  drawTiles(context, tiles, camera, look, wide, high);
  drawNumbers(context, tiles, camera, look, wide, high);
  const line = (isRow, place, colour, size) => {
    const { x, y } = camera.point(isRow ? place : 0, isRow ? 0 : place, wide, high);
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.strokeRect(isRow ? -5 : x, isRow ? y : -5, isRow ? wide + 10 : Math.max(camera.scale, 1),
      isRow ? Math.max(camera.scale, 1) : high + 10);
  };
  found.keys.forEach((place) => line(false, place, colours.found, 1));
  found.queries.forEach((place) => line(true, place, colours.found, 1));
  if (marks) { line(true, marks.query, colours.ink, 1.5); line(false, marks.key, colours.ink, 1.5); }
  context.restore();
  const low = camera.cell(0, 0, wide, high), top = camera.cell(wide, high, wide, high);
  if (profile) drawProfile(context, profile, camera, low, top, wide, high, colours);
  context.save();
  context.beginPath(); context.rect(STRIP, PROFILE, wide, STRIP - PROFILE); context.clip();
  drawStrip(context, tokens.keys, low.key, top.key, (i) => STRIP + camera.point(0, i, wide, high).x, camera,
    colours, true);
  context.restore();
  context.save();
  context.beginPath(); context.rect(0, STRIP, STRIP, high); context.clip();
  drawStrip(context, tokens.queries, low.query, top.query, (i) => STRIP + camera.point(i, 0, wide, high).y, camera,
    colours, false);
  context.restore();
  context.strokeStyle = colours.edge;
  context.lineWidth = 1;
  context.strokeRect(STRIP - 0.5, STRIP - 0.5, wide, high);
  context.fillStyle = colours.quiet;
  context.font = `${TEXT}px system-ui, sans-serif`;
  context.textAlign = "right";
  context.fillText("key →", STRIP - 6, 48);
  context.fillText("query ↓", STRIP - 6, 66);
}

function drawProfile(context, profile, camera, low, top, wide, high, colours) {
  const most = Math.max(...profile) || 1, bin = camera.size.keys / profile.length;
  context.fillStyle = colours.bars;
  context.save();
  context.beginPath(); context.rect(STRIP, 0, wide, PROFILE); context.clip();
  const last = Math.min(Math.ceil(top.key / bin), profile.length);
  for (let i = Math.max(0, Math.floor(low.key / bin)); i < last; i += 1) {
    const { x } = camera.point(0, i * bin, wide, high), tall = profile[i] / most * (PROFILE - 4);
    context.fillRect(STRIP + x, PROFILE - tall, Math.max(bin * camera.scale, 1), tall);
  }
  context.restore();
}

export function drawMinimap(canvas, { tiles, camera, look, colours }, wide, high) {
  const context = canvas.getContext("2d"), tile = tiles.get(0, 0, 0), { queries, keys } = camera.size;
  const side = canvas.width / Math.max(queries, keys), cells = 2 ** tiles.maxZoom;
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  if (tile && !tile.isEmpty) {
    context.drawImage(painted(tile, look), 0, 0, PIXELS * cells * side, PIXELS * cells * side);
  }
  const low = camera.cell(0, 0, wide, high);
  context.strokeStyle = colours.found;
  context.lineWidth = 2;
  context.strokeRect(low.key * side, low.query * side, Math.max(wide / camera.scale * side, 4),
    Math.max(high / camera.scale * side, 4));
}
