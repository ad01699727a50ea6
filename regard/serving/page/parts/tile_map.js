// A map drawn by tiles, which can be panned and zoomed by pointer and by keys.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../drawing/vendor/preact.js";
import { allowedAt, drawAtlas, drawMinimap, STRIP, weightAt } from "./atlas_drawing.js";
import { Camera, extentOf, pixelOf } from "./camera.js";
import { colour, css, ink, LONG_SCALES as SCALES, MASKED } from "../drawing/colours.js";
import { Select } from "../drawing/controls.js";
import { Frames } from "./frames.js";
import { limited, quoted } from "../drawing/numbers.js";
import { Legend } from "../drawing/words.js";
import { Tiles } from "./tiles.js";

// tokens on either side in a snippet; milliseconds between two updates of the page around the map
const AROUND = 30, TELLING = 80, KEYS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };

function lookOf(scale, stops, top, isDark) {
  const table = new Uint32Array(256), rgb = [...Array(256).keys()].map((i) => colour(stops, i / 255));
  rgb.forEach(([r, g, b], i) => { table[i] = 0xff000000 | (b << 16) | (g << 8) | r; });
  const grey = MASKED[isDark ? "dark" : "light"], inks = rgb.map(ink), { value, share, to } = SCALES[scale];
  const level = (weight, allowed) => limited(Math.round(255 * share(value(weight, allowed), top)), 256);
  // a scale with a fixed end does not change as tiles arrive
  return { name: `${scale} ${to ? "" : top} ${isDark} ${stops.join()}`, level, table,
    masked: (0xff000000 | (grey[2] << 16) | (grey[1] << 8) | grey[0]) >>> 0, maskedCss: css(grey),
    inkOf: (weight, allowed) => inks[level(weight, allowed)] };
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
  // the drawn state; a movement changes it many times between two updates of the page
  const live = useRef({ telling: 0 }).current;
  const [, setTurn] = useState(0), [cell, setCell] = useState(null), [marks, setMarks] = useState(null);
  const [isLocked, setLocked] = useState(false), [hasMini, setMini] = useState(true);
  const [wide, setWide] = useState(700), [rate, setRate] = useState(null);
  const high = Math.round(Math.min(Math.max(340, innerHeight - 310), Math.max(340, wide * 0.8)));
  const inner = { wide: wide - STRIP, high: high - STRIP };
  const tiles = useMemo(() => new Tiles(parts, size.max_zoom, () => setTurn((n) => n + 1)),
    [parts.join("/"), size.max_zoom]);
  const extent = extentOf(size, inner.high);
  const [camera, setCamera] = useState(null);
  const isOfThis = (one) => one?.size.keys === extent.keys && one.size.queries === extent.queries;
  const now = isOfThis(camera) ? camera : Camera.whole(extent, inner.wide, inner.high);
  const scale = params.atlasScale in SCALES ? params.atlasScale : "lift";
  const top = [...tiles.kept.values()].reduce((most, tile) => Math.max(most, tile.highest ?? 0), 0) || 1;
  const look = useMemo(() => lookOf(scale, stops, top, isDark), [scale, stops, top, isDark]);
  const bars = useMemo(() => profile && { bars: profile, most: Math.max(...profile) || 1 }, [profile]);
  if (!live.telling) live.camera = now;
  Object.assign(live, { tiles, look, tokens, profile: bars, marks, found, inner, isLocked });
  const frames = useMemo(() => new Frames(() => {
    const began = performance.now(), colours = themed(), shown = { ...live, colours };
    const isWaiting = drawAtlas(canvas.current, shown);
    if (mini.current) drawMinimap(mini.current, shown, live.inner.wide, live.inner.high);
    const { query, key, scale: size_ } = live.camera;
    Object.assign(canvas.current.dataset, { frame: (performance.now() - began).toFixed(2),
      view: [query, key, size_].map((n) => n.toFixed(3)).join(" ") });
    if (isWaiting) frames.ask();
  }, setRate), []);
  useEffect(() => () => { frames.stop(); clearTimeout(live.telling); }, []);
  useLayoutEffect(() => frames.ask());

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWide(Math.max(Math.round(entry.contentRect.width), 2 * STRIP)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const { zoom } = now, sight = now.tiles(inner.wide, inner.high);
  const leaf = cell && [size.max_zoom, Math.floor(cell.key / 256), Math.floor(cell.query / 256)];
  useEffect(() => {
    // the whole map first: it is drawn in place of tiles that have not arrived
    tiles.want([...(zoom ? [[0, 0, 0]] : []), ...sight, ...(leaf && zoom < size.max_zoom ? [leaf] : [])]);
  }, [tiles, zoom, JSON.stringify(sight), String(leaf)]);
  // cancel the requests of an older map
  useEffect(() => () => tiles.want([]), [tiles]);
  useEffect(() => {
    if (!jump) return;
    move(now.at({ query: jump.query + 0.5, key: jump.key + 0.5, scale: Math.max(now.scale, 18) }));
    setMarks(jump);
    setCell(jump);
  }, [jump]);
  const held = (next) => (live.isLocked
    ? next.at({ query: (next.key + next.query) / 2, key: (next.key + next.query) / 2 }) : next);
  // redraw the map at once, the page around it a little later
  const move = (next) => {
    live.camera = next;
    frames.moved();
    live.telling ||= setTimeout(() => { live.telling = 0; setCamera(live.camera); }, TELLING);
  };
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
      move(held(from.at({ key: from.key - (x - x0) / from.scale, query: from.query - (y - y0) / from.tall })));
    } else setCell(inside(live.camera.cell(x, y, inner.wide, inner.high)));
  };
  useEffect(() => {
    const wheel = (event) => {
      event.preventDefault();
      const { camera: here, inner: area } = live, [x, y] = at(event);
      move(held(here.zoomed(Math.exp(-event.deltaY / 400), x, y, area.wide, area.high)));
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => canvas.current?.removeEventListener("wheel", wheel);
  }, []);
  const zoomed = (by) => held(live.camera.zoomed(by, inner.wide / 2, inner.high / 2, inner.wide, inner.high));
  const whole = () => { move(Camera.whole(extent, inner.wide, inner.high)); setMarks(null); };
  const pressed = (event) => {
    const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const here = live.camera, step = event.shiftKey ? 1 : 0.1;
    let next = here;
    if (event.key in arrows) {
      const [down, across] = arrows[event.key];
      next = held(here.at({ query: here.query + down * step * inner.high / here.tall,
        key: here.key + across * step * inner.wide / here.scale }));
    } else if (event.key in KEYS) next = zoomed(KEYS[event.key]);
    else if (event.key === "0") { next = Camera.whole(extent, inner.wide, inner.high); setMarks(null); }
    else if (event.key === "d") setLocked(!isLocked);
    else if (event.key === "m") setMini(!hasMini);
    else if (event.key === "f") document.getElementById("find")?.focus();
    else if (event.key === "Enter") setMarks(inside(here));
    else if (event.key === "Escape") setMarks(null);
    else return;
    // the cell in the centre is the one described from now on
    if (next !== here) move(next);
    setCell(inside(next));
    event.preventDefault();
    event.stopPropagation();
  };
  const isPart = inner.wide / now.scale < 0.99 * extent.keys || inner.high / now.tall < 0.99 * extent.queries;
  const pixel = pixelOf(extent, zoom), small = wide < 500 ? 80 : 120;
  const shown = cell ?? marks;
  const weight = shown && weightAt(tiles, shown.query, shown.key);
  const here = sight.map(([z, x, y]) => tiles.get(z, x, y));
  const n_missing = here.filter((tile) => !tile).length, rough = here.filter((tile) => tile && !tile.isExact);
  const exactness = n_missing ? `${n_missing} of ${here.length} tiles in sight are on their way.`
    : rough.length ? `Sampled for now: ${rough[0].rows} of ${pixel.queries} queries of each pixel; `
      + "exact tiles follow." : "All tiles in sight are exact.";
  const said = !shown ? "Point at the map, or reach it with Tab: arrow keys move, + and − zoom, 0 shows all."
    : `query ${shown.query + 1} ${quoted(tokens.queries[shown.query])} → key ${shown.key + 1} `
      + `${quoted(tokens.keys[shown.key])}: ` + (weight == null ? "…" : weight < 0 ? "masked"
        : `${weight.toFixed(4)} (lift ${(weight * allowedAt(tiles, shown.query, shown.key)).toFixed(2)})`);
  return html`<div class="toolbar atlas-tools"><button type="button" onClick=${() => move(zoomed(1.5))} aria-label="zoom in">+</button>
      <button type="button" onClick=${() => move(zoomed(1 / 1.5))} aria-label="zoom out">−</button>
      <button type="button" onClick=${whole}>All</button>
      <button type="button" aria-pressed=${String(isLocked)} 
        onClick=${() => setLocked(!isLocked)}>Keep to the diagonal</button>
      <button type="button" aria-pressed=${String(hasMini)} onClick=${() => setMini(!hasMini)}>Overview</button>
      <${Select} label="colours" value=${scale} options=${Object.entries(SCALES).map(([key, one]) => [key, one.name])}
        onChange=${(next) => change({ atlasScale: next })} /></div>
    <div class="reading"><p class="readout" role="status">${said}</p>
    <${Legend} top=${top} stops=${stops} scale=${SCALES[scale]} digits=${(number) => number.toPrecision(3)}
      note="; a pixel shows its largest cell; grey: masked" /></div>
    <p class="quiet small exactness">${tiles.error ? html`<span class="error">${tiles.error}</span>` : exactness}
      ${" "}${zoom === size.max_zoom ? "A cell is a pixel or more." : `A pixel is ${pixel.queries} by ${pixel.keys} cells.`}
      ${rate && html`${" "}<span class="rate" data-rate=${JSON.stringify(rate)}>The last movement had${" "}
        ${Math.round(rate.drawn)} frames a second.</span>`}</p>
    <div class="atlas" ref=${box}><div role="application" tabIndex="0" onKeyDown=${pressed}
      aria-label=${`Map of ${extent.queries} queries by ${extent.keys} keys. Arrow keys move, plus and minus zoom, `
        + "0 shows all, d keeps to the diagonal, f finds, m shows the overview, Enter marks the middle."}>
      <canvas ref=${canvas} width=${wide} height=${high} aria-hidden="true"
        onPointerDown=${(event) => { const [x, y] = at(event); drag.current = { camera: live.camera, x, y };
          event.currentTarget.setPointerCapture(event.pointerId); }}
        onPointerUp=${(event) => { const [x, y] = at(event); const from = drag.current; drag.current = null;
          const isClick = from && Math.hypot(x - from.x, y - from.y) < 4;
          if (isClick) setMarks(inside(live.camera.cell(x, y, inner.wide, inner.high))); }}
        onPointerCancel=${() => { drag.current = null; }}
        onPointerMove=${pointed} onPointerLeave=${() => { if (!drag.current) setCell(null); }}
        onDblClick=${(event) => move(held(live.camera.zoomed(2, ...at(event), inner.wide, inner.high)))}></canvas></div>
      ${hasMini && isPart && html`<canvas class="minimap" ref=${mini} width=${small} height=${small}
        aria-hidden="true"></canvas>`}</div>
    ${marks && html`<div class="snippets">
      <p><b>query ${marks.query + 1}</b> ${snippet(tokens.queries, marks.query)}</p>
      <p><b>key ${marks.key + 1}</b> ${snippet(tokens.keys, marks.key)}</p></div>`}`;
}
