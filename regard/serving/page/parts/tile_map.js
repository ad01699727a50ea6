// A map drawn by tiles, which can be panned and zoomed by pointer and by keys.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { allowedAt, drawAtlas, drawMinimap, STRIP, weightAt } from "./atlas_drawing.js";
import { Camera } from "./camera.js";
import { colour, css, ink } from "./colours.js";
import { Select } from "./controls.js";
import { quoted } from "./numbers.js";
import { SCALES, Tiles } from "./tiles.js";

const AROUND = 30, KEYS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };

function lookOf(scale, stops, top, isDark) {
  const table = new Uint32Array(256), rgb = [...Array(256).keys()].map((i) => colour(stops, i / 255));
  rgb.forEach(([r, g, b], i) => { table[i] = 0xff000000 | (b << 16) | (g << 8) | r; });
  const grey = isDark ? [70, 74, 80] : [205, 208, 212];
  const inks = rgb.map(ink);
  return { name: `${scale} ${top} ${isDark}`, share: SCALES[scale].share, top, table,
    masked: (0xff000000 | (grey[2] << 16) | (grey[1] << 8) | grey[0]) >>> 0, maskedCss: css(grey),
    inkOf: (share) => inks[Math.min(Math.max(Math.round(share * 255), 0), 255)] };
}

const themed = () => {
  const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
  return { ground: of("--ground"), ink: of("--ink"), edge: of("--edge"), quiet: of("--quiet"),
    found: of("--line-2"), bars: of("--line-7") };
};

function snippet(names, place) {
  const part = (from, to) => names.slice(Math.max(from, 0), Math.max(to, 0)).join("").replaceAll("▁", " ");
  return html`<bdi>${part(place - AROUND, place)}<mark>${names[place]?.replaceAll("▁", " ")}</mark>${
    part(place + 1, place + 1 + AROUND)}</bdi>`;
}

export function TileMap({ size, parts, tokens, profile, params, change, stops, isDark, jump, found }) {
  const canvas = useRef(null), mini = useRef(null), box = useRef(null), drag = useRef(null);
  const state = useRef({});
  const [turn, setTurn] = useState(0), [cell, setCell] = useState(null), [marks, setMarks] = useState(null);
  const [isLocked, setLocked] = useState(false), [hasMini, setMini] = useState(true);
  const [wide, setWide] = useState(700);
  const high = Math.min(560, Math.max(340, wide * 0.7));
  const inner = { wide: wide - STRIP, high: high - STRIP };
  const tiles = useMemo(() => new Tiles(parts, size.max_zoom, () => setTurn((n) => n + 1)), [parts.join("/")]);
  const extent = { queries: size.n_queries, keys: size.n_keys };
  const [camera, setCamera] = useState(null);
  const now = camera?.size.keys === extent.keys && camera.size.queries === extent.queries ? camera
    : Camera.whole(extent, inner.wide, inner.high);
  const scale = params.atlasScale in SCALES ? params.atlasScale : "lift";
  const top = [...tiles.kept.values()].reduce((most, tile) => Math.max(most, tile.highest ?? 0), 0) || 1;
  const look = useMemo(() => lookOf(scale, stops, top, isDark), [scale, stops, top, isDark]);
  Object.assign(state.current, { now, inner, isLocked });

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWide(Math.round(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const zoom = now.zoom(size.max_zoom);
  const sight = now.tiles(zoom, size.max_zoom, inner.wide, inner.high);
  const leaf = cell && [size.max_zoom, Math.floor(cell.key / 256), Math.floor(cell.query / 256)];
  useEffect(() => {
    const waiting = setTimeout(() => tiles.want([...sight, ...(zoom ? [[0, 0, 0]] : []),
      ...(leaf && zoom < size.max_zoom ? [leaf] : [])]), 80);
    return () => clearTimeout(waiting);
  }, [tiles, zoom, JSON.stringify(sight), String(leaf)]);
  // what an older map still waits for is given up
  useEffect(() => () => tiles.want([]), [tiles]);
  useEffect(() => {
    const began = performance.now();
    drawAtlas(canvas.current, { tiles, camera: now, look, colours: themed(), tokens, profile, marks, found });
    if (mini.current) {
      drawMinimap(mini.current, { tiles, camera: now, look, colours: themed() }, inner.wide, inner.high);
    }
    canvas.current.dataset.frame = (performance.now() - began).toFixed(2);
  });
  useEffect(() => {
    if (!jump) return;
    setCamera(now.at({ query: jump.query + 0.5, key: jump.key + 0.5, scale: Math.max(now.scale, 18) }));
    setMarks(jump);
    setCell(jump);
  }, [jump]);
  const held = (next) => (state.current.isLocked
    ? next.at({ query: (next.key + next.query) / 2, key: (next.key + next.query) / 2 }) : next);
  const move = (next) => setCamera(held(next));
  const at = (event) => {
    const area = canvas.current.getBoundingClientRect();
    return [event.clientX - area.left - STRIP, event.clientY - area.top - STRIP];
  };
  const inside = ({ query, key }) => (query >= 0 && key >= 0 && query < extent.queries && key < extent.keys
    ? { query: Math.floor(query), key: Math.floor(key) } : null);
  const pointed = (event) => {
    const [x, y] = at(event);
    if (drag.current) {
      const { camera: from, x: x0, y: y0 } = drag.current;
      move(from.at({ key: from.key - (x - x0) / from.scale, query: from.query - (y - y0) / from.scale }));
    } else setCell(inside(now.cell(x, y, inner.wide, inner.high)));
  };
  useEffect(() => {
    const wheel = (event) => {
      event.preventDefault();
      const { now: here, inner: area } = state.current, [x, y] = at(event);
      move(here.zoomed(Math.exp(-event.deltaY / 400), x, y, area.wide, area.high));
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => canvas.current?.removeEventListener("wheel", wheel);
  }, []);
  const zoomed = (by) => now.zoomed(by, inner.wide / 2, inner.high / 2, inner.wide, inner.high);
  const zoomBy = (by) => move(zoomed(by));
  const whole = () => { setCamera(Camera.whole(extent, inner.wide, inner.high)); setMarks(null); };
  const pressed = (event) => {
    const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = (event.shiftKey ? 1 : 0.1) / now.scale;
    let next = now;
    if (event.key in arrows) {
      const [down, across] = arrows[event.key];
      next = held(now.at({ query: now.query + down * step * inner.high, key: now.key + across * step * inner.wide }));
    } else if (event.key in KEYS) next = held(zoomed(KEYS[event.key]));
    else if (event.key === "0") { next = Camera.whole(extent, inner.wide, inner.high); setMarks(null); }
    else if (event.key === "d") setLocked(!isLocked);
    else if (event.key === "m") setMini(!hasMini);
    else if (event.key === "f") document.getElementById("find")?.focus();
    else if (event.key === "Enter") setMarks(inside(now));
    else if (event.key === "Escape") setMarks(null);
    else return;
    // what is said is what is in the middle from now on
    if (next !== now) setCamera(next);
    setCell(inside(next));
    event.preventDefault();
    event.stopPropagation();
  };
  const isPart = inner.wide / now.scale < 0.99 * extent.keys || inner.high / now.scale < 0.99 * extent.queries;
  const cells = 2 ** (size.max_zoom - zoom), small = wide < 500 ? 80 : 120;
  const shown = cell ?? marks;
  const weight = shown && weightAt(tiles, shown.query, shown.key);
  const rough = sight.map(([z, x, y]) => tiles.get(z, x, y)).filter((tile) => tile && !tile.isExact);
  const said = !shown ? "Point at the map, or reach it with Tab: arrow keys move, + and − zoom, 0 shows all."
    : `query ${shown.query + 1} ${quoted(tokens.queries[shown.query])} → key ${shown.key + 1} `
      + `${quoted(tokens.keys[shown.key])}: ` + (weight == null ? "…" : weight < 0 ? "masked"
        : `${weight.toFixed(4)} (lift ${(weight * allowedAt(tiles, shown.query, shown.key)).toFixed(2)})`);
  return html`<p class="readout" role="status">${said}</p>
    <div class="bar"><button type="button" onClick=${() => zoomBy(1.5)} aria-label="zoom in">+</button>
      <button type="button" onClick=${() => zoomBy(1 / 1.5)} aria-label="zoom out">−</button>
      <button type="button" onClick=${whole}>All</button>
      <button type="button" aria-pressed=${String(isLocked)} 
        onClick=${() => setLocked(!isLocked)}>Keep to the diagonal</button>
      <button type="button" aria-pressed=${String(hasMini)} onClick=${() => setMini(!hasMini)}>Overview</button>
      <${Select} label="colours" value=${scale} options=${Object.entries(SCALES).map(([key, one]) => [key, one.name])}
        onChange=${(next) => change({ atlasScale: next })} /></div>
    <p class="legend"><span>${SCALES[scale].from}</span><i style=${{ background:
      `linear-gradient(to right, ${stops.map(css).join(",")})` }}></i>
      <span>${SCALES[scale].to ?? top.toPrecision(3)}</span>
      <span class="quiet">${SCALES[scale].name}; a pixel shows its largest cell; grey: masked</span></p>
    <p class="quiet small exactness">${tiles.error ? html`<span class="error">${tiles.error}</span>` : rough.length
      ? `Sampled for now: ${rough[0].rows} queries of each pixel; the exact tiles follow.`
      : "All tiles in sight are exact."}
      ${" "}${zoom === size.max_zoom ? "A cell is a pixel or more." : `A pixel is ${cells} by ${cells} cells.`}</p>
    <div class="atlas" ref=${box}><div role="application" tabIndex="0" onKeyDown=${pressed}
      aria-label=${`Map of ${extent.queries} queries by ${extent.keys} keys. Arrow keys move, plus and minus zoom, `
        + "0 shows all, d keeps to the diagonal, f finds, m shows the overview, Enter marks the middle."}>
      <canvas ref=${canvas} width=${wide} height=${high} aria-hidden="true"
        data-view=${[now.query, now.key, now.scale].map((n) => n.toFixed(3)).join(" ")}
        onPointerDown=${(event) => { const [x, y] = at(event); drag.current = { camera: now, x, y };
          event.currentTarget.setPointerCapture(event.pointerId); }}
        onPointerUp=${(event) => { const [x, y] = at(event); const from = drag.current; drag.current = null;
          const isClick = from && Math.hypot(x - from.x, y - from.y) < 4;
          if (isClick) setMarks(inside(now.cell(x, y, inner.wide, inner.high))); }}
        onPointerCancel=${() => { drag.current = null; }}
        onPointerMove=${pointed} onPointerLeave=${() => { if (!drag.current) setCell(null); }}
        onDblClick=${(event) => move(now.zoomed(2, ...at(event), inner.wide, inner.high))}></canvas></div>
      ${hasMini && isPart && html`<canvas class="minimap" ref=${mini} width=${small} height=${small}
        aria-hidden="true"></canvas>`}</div>
    ${marks && html`<div class="snippets">
      <p><b>query ${marks.query + 1}</b> ${snippet(tokens.queries, marks.query)}</p>
      <p><b>key ${marks.key + 1}</b> ${snippet(tokens.keys, marks.key)}</p></div>`}`;
}
