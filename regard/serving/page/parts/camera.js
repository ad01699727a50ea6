// The camera of the atlas: the centre of the view in cells, and the pixels of a cell. A map of few queries
// and many keys is drawn higher than wide: a query has at least `least` pixels.

import { PIXELS } from "./tiles.js";

const MOST_SCALE = 48, SHORT = 4, ROW = 24;

// the extent of a map: its cells, its zoom levels, and the least height of a row on the screen
export function extentOf(size, high) {
  const isShort = size.n_keys > SHORT * size.n_queries;
  return { queries: size.n_queries, keys: size.n_keys, maxZoom: size.max_zoom, rowZoom: size.row_zoom,
    least: isShort ? Math.min(ROW, high / size.n_queries) : 0 };
}

// queries and keys of a pixel of a tile
export function pixelOf({ maxZoom, rowZoom }, zoom) {
  return { queries: 2 ** Math.max(rowZoom - zoom, 0), keys: 2 ** (maxZoom - zoom) };
}

export class Camera {
  constructor(size, view) { Object.assign(this, { size, ...view }); }

  static whole(size, wide, high) {
    const scale = Math.min(wide / size.keys, high / size.queries, MOST_SCALE);
    return new Camera(size, { key: size.keys / 2, query: size.queries / 2, scale });
  }

  get tall() { return Math.max(this.scale, this.size.least); }

  at(wish) {
    const next = { key: this.key, query: this.query, scale: this.scale, ...wish };
    const within = (value, most) => Math.min(Math.max(value, 0), most);
    return new Camera(this.size, { key: within(next.key, this.size.keys),
      query: within(next.query, this.size.queries),
      scale: Math.min(Math.max(next.scale, 1e-4), MOST_SCALE) });
  }

  // zoom, and keep the cell under a point where it is
  zoomed(by, x, y, wide, high) {
    const before = this.cell(x, y, wide, high), next = this.at({ scale: this.scale * by });
    const after = next.cell(x, y, wide, high);
    return next.at({ key: next.key + before.key - after.key, query: next.query + before.query - after.query });
  }

  cell(x, y, wide, high) {
    return { key: this.key + (x - wide / 2) / this.scale, query: this.query + (y - high / 2) / this.tall };
  }

  point(query, key, wide, high) {
    return { x: (key - this.key) * this.scale + wide / 2, y: (query - this.query) * this.tall + high / 2 };
  }

  get zoom() {
    const { maxZoom } = this.size;
    return Math.min(Math.max(Math.ceil(maxZoom + Math.log2(this.scale)), 0), maxZoom);
  }

  // tiles in sight at a zoom, those in the middle first
  tiles(wide, high) {
    const { zoom, size } = this, pixel = pixelOf(size, zoom);
    const side = { queries: PIXELS * pixel.queries, keys: PIXELS * pixel.keys };
    const low = this.cell(0, 0, wide, high), top = this.cell(wide, high, wide, high);
    const span = (from, to, one, most) => {
      const first = Math.max(Math.floor(from / one), 0);
      const last = Math.min(Math.floor(to / one), Math.ceil(most / one) - 1);
      return [...Array(Math.max(last - first + 1, 0)).keys()].map((i) => first + i);
    };
    const far = ([, x, y]) => Math.hypot((x + 0.5) * side.keys - this.key, (y + 0.5) * side.queries - this.query);
    return span(low.query, top.query, side.queries, size.queries).flatMap((y) =>
      span(low.key, top.key, side.keys, size.keys).map((x) => [zoom, x, y])).sort((a, b) => far(a) - far(b));
  }
}
