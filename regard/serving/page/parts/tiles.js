// Tiles of a map: asked for when they come into sight, given up when they leave it, kept once here.
// A tile that was made of some of its queries is asked for again, exactly, once nothing else is waiting.

import { octets } from "./server.js";

export const PIXELS = 256;
// requests at once, tiles that are kept, and milliseconds of rest before exact tiles are asked for
const AT_ONCE = 4, MOST = 400, IDLE = 400;

export class Tiles {
  constructor(parts, maxZoom, changed) {
    Object.assign(this, { parts, maxZoom, changed, kept: new Map(), asked: new Map(), wanted: [] });
  }

  get(zoom, x, y) { return this.kept.get(`${zoom}/${x}/${y}`); }

  // what is in sight now, most urgent first; requests for anything else are given up
  want(places) {
    this.wanted = places;
    this.since = performance.now();
    const names = new Set(places.map((place) => place.join("/")));
    for (const [name, { control }] of this.asked) if (!names.has(name)) control.abort();
    // what is in sight is forgotten last
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
    // the finest first: they are what is looked at, and the soonest done
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

// how a weight becomes a share of the ramp; `allowed` is how many keys the query may see
export const SCALES = {
  lift: { name: "lift (times an even share), logarithmic", from: "≤ 0.1", to: "≥ 100",
    share: (weight, allowed) => (Math.log10(Math.max(weight * allowed, 1e-9)) + 1) / 3 },
  log: { name: "weight, logarithmic", from: "≤ 1e-7", to: "1",
    share: (weight) => (Math.log10(Math.max(weight, 1e-9)) + 7) / 7 },
  root: { name: "weight, square root", from: "0", to: null,
    share: (weight, allowed, top) => Math.sqrt(weight / top) },
  linear: { name: "weight, linear", from: "0", to: null,
    share: (weight, allowed, top) => weight / top },
};

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
      const share = weight < 0 ? -1 : look.share(weight, tile.allowed[i], look.top);
      pixels[i * PIXELS + j] = share === -1 ? look.masked
        : look.table[Math.min(Math.max(Math.round(share * 255), 0), 255)];
    }
  }
  context.putImageData(image, 0, 0);
  return Object.assign(tile, { picture: canvas, look: look.name }).picture;
}
