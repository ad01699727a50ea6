// Where the atlas looks: the middle of the view in cells, and how many pixels a cell has.

import { PIXELS } from "./tiles.js";

const MOST_SCALE = 48;

export class Camera {
  constructor(size, view) { Object.assign(this, { size, ...view }); }

  static whole(size, wide, high) {
    const scale = Math.min(wide / size.keys, high / size.queries, MOST_SCALE);
    return new Camera(size, { key: size.keys / 2, query: size.queries / 2, scale });
  }

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
    return { key: this.key + (x - wide / 2) / this.scale, query: this.query + (y - high / 2) / this.scale };
  }

  point(query, key, wide, high) {
    return { x: (key - this.key) * this.scale + wide / 2, y: (query - this.query) * this.scale + high / 2 };
  }

  zoom(maxZoom) {
    return Math.min(Math.max(Math.ceil(maxZoom + Math.log2(this.scale)), 0), maxZoom);
  }

  // tiles in sight at a zoom, those in the middle first
  tiles(zoom, maxZoom, wide, high) {
    const side = PIXELS * 2 ** (maxZoom - zoom);
    const low = this.cell(0, 0, wide, high), top = this.cell(wide, high, wide, high);
    const span = (from, to, most) => {
      const first = Math.max(Math.floor(from / side), 0);
      const last = Math.min(Math.floor(to / side), Math.ceil(most / side) - 1);
      return [...Array(Math.max(last - first + 1, 0)).keys()].map((i) => first + i);
    };
    const far = ([, x, y]) => Math.hypot((x + 0.5) * side - this.key, (y + 0.5) * side - this.query);
    return span(low.query, top.query, this.size.queries).flatMap((y) =>
      span(low.key, top.key, this.size.keys).map((x) => [zoom, x, y])).sort((a, b) => far(a) - far(b));
  }
}
