// Tiles of a map: requested when they come into view, cancelled when they leave it, kept once received.
// A tile from a sample of its queries is requested again, exactly, when no other request is waiting.

import { octets } from "./server.js";

export const PIXELS = 256;
// concurrent requests, tiles that are kept, and milliseconds of rest before exact tiles are requested
const AT_ONCE = 4, MOST = 400, IDLE = 400;

export class Tiles {
  constructor(parts, maxZoom, changed) {
    Object.assign(this, { parts, maxZoom, changed, kept: new Map(), asked: new Map(), wanted: [] });
  }

  get(zoom, x, y) { return this.kept.get(`${zoom}/${x}/${y}`); }

  // `places` are the tiles in view, most urgent first; requests for others are cancelled
  want(places) {
    this.wanted = places;
    this.since = performance.now();
    const names = new Set(places.map((place) => place.join("/")));
    for (const [name, { control }] of this.asked) if (!names.has(name)) control.abort();
    // tiles in view are dropped from the cache last
    for (const name of names) if (this.kept.has(name)) this.keep(name, this.kept.get(name));
    this.next();
  }

  next() {
    const isFree = (place) => !this.asked.has(place.join("/"));
    const missing = this.wanted.find((place) => !this.kept.has(place.join("/")) && isFree(place));
    if (missing) {
      if (this.asked.size < AT_ONCE) { this.ask(missing, 4); this.next(); }
      return;
    }
    // the finest first: they are in view, and take the least time
    const rough = this.wanted.findLast((place) => this.kept.get(place.join("/"))?.isExact === false);
    if (!rough || this.asked.size) return;
    const left = this.since + IDLE - performance.now();
    clearTimeout(this.later);
    if (left > 0) this.later = setTimeout(() => this.next(), left);
    else this.ask(rough, 0);
  }

  async ask([zoom, x, y], rows) {
    const name = `${zoom}/${x}/${y}`, control = new AbortController();
    this.asked.set(name, { control });
    try {
      const { headers, status, content } = await octets(
        [...this.parts, zoom, x, y], { rows, type: "float32" }, control.signal);
      this.keep(name, status === 204 ? { isEmpty: true, isExact: true, rows: 0 } : {
        values: new Float32Array(content, 0, PIXELS * PIXELS),
        allowed: new Float32Array(content, 4 * PIXELS * PIXELS, PIXELS),
        isExact: headers.get("x-exact") === "true", rows: Number(headers.get("x-rows-sampled")),
        highest: Number(headers.get("x-max")) });
      this.error = null;
    } catch (error) {
      if (error.name !== "AbortError") { this.error = error.message; this.wanted = []; }
    }
    this.asked.delete(name);
    this.changed();
    this.next();
  }

  keep(name, tile) {
    this.kept.delete(name);
    this.kept.set(name, tile);
    for (const old of this.kept.keys()) {
      if (this.kept.size <= MOST) break;
      if (old !== "0/0/0") this.kept.delete(old);
    }
  }
}

// 256 × 256 pixels in colour; the picture is kept with the tile until the colours change
export function painted(tile, look) {
  if (tile.picture && tile.look === look.name) return tile.picture;
  const canvas = tile.picture ?? document.createElement("canvas");
  Object.assign(canvas, { width: PIXELS, height: PIXELS });
  const context = canvas.getContext("2d"), image = context.createImageData(PIXELS, PIXELS);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < PIXELS; i += 1) {
    for (let j = 0; j < PIXELS; j += 1) {
      const weight = tile.values[i * PIXELS + j];
      if (Number.isNaN(weight)) continue;
      pixels[i * PIXELS + j] = weight < 0 ? look.masked
        : look.table[look.level(weight, tile.allowed[i])];
    }
  }
  context.putImageData(image, 0, 0);
  return Object.assign(tile, { picture: canvas, look: look.name }).picture;
}
