// A heat map on a canvas, one pixel a cell, made large by the browser without smoothing. A crosshair
// follows the pointer and the arrow keys; rows are queries, columns keys.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { paint } from "./colours.js";
import { ARROWS, entropy, limited, quoted, received, written } from "./numbers.js";

// cells a side from which on names are left out; letters of names that fit above a column
const LONG = 90, UPRIGHT = 2;

function cellText(panel, { query, key }) {
  const weight = panel.weights[query][key];
  const where = `query ${query + 1} ${quoted(panel.queries[query])} → key ${key + 1} ${quoted(panel.keys[key])}: `;
  if (panel.visible && !panel.visible[query][key]) return `${where}masked, this query may not see this key`;
  const lift = weight * (panel.allowed?.[query] ?? panel.keys.length);
  return where + written(weight) + (panel.isShare ? ` (${lift.toFixed(1)} times an even share)` : "");
}

// `told` gives the text of a cell; `size` is that of a cell in pixels, if the style sheet does not set
// it, and `extent` the numbers of rows and columns, if cells are not pairs of query and key
export function HeatMap({ panel, scale, top, stops, focus, label, marks, hasMargins = true, hint, linked,
  isShort, told = cellText, size, extent }) {
  const canvas = useRef(null), box = useRef(null);
  const own = useState({ query: 0, key: 0 }), seen = useState(false);
  // maps that are linked share one cell
  const [cell, setCell] = linked?.cell ?? own, [isShown, setShown] = linked?.seen ?? seen;
  const [rows, columns] = [panel.queries.length, panel.keys.length];
  const isLong = Boolean(size) || Math.max(rows, columns) > LONG;
  const here = { query: limited(cell.query, rows), key: limited(cell.key, columns) };
  const { weights, visible, allowed } = panel;
  useEffect(() => { paint(canvas.current, panel, scale, top, stops); }, [weights, visible, allowed, scale, top, stops]);

  const move = (next) => {
    setCell(next);
    setShown(true);
    focus?.setHover({ side: "query", place: next.query });
  };
  const pointed = (event) => {
    const frame = box.current.getBoundingClientRect();
    const at = (offset, size, count) => limited(Math.floor(offset / size * count), count);
    move({ query: at(event.clientY - frame.top, frame.height, rows),
      key: at(event.clientX - frame.left, frame.width, columns) });
  };
  const left = () => { focus?.setHover(null); setShown(document.activeElement === box.current); };
  const pressed = (event) => {
    const far = event.ctrlKey ? Infinity : 0;
    const steps = { ...ARROWS, PageUp: [-10, 0], PageDown: [10, 0], Home: [-far, -Infinity],
      End: [far, Infinity] };
    if (event.key === "Enter" || event.key === " ") focus?.toggle("query", here.query, event.shiftKey);
    else if (event.key === "Escape") focus?.clear();
    else if (event.key in steps) {
      const [down, across] = steps[event.key];
      move({ query: limited(down ? here.query + down : here.query, rows),
        key: limited(across ? here.key + across : here.key, columns) });
    } else return;
    event.preventDefault();
  };
  const focused = focus?.at.find((one) => one.side === "query")?.place;
  const marked = isShown ? here.query : focused;
  const markedKey = isShown ? here.key : focus?.at.find((one) => one.side === "key")?.place;
  const spread = Math.log(Math.max(columns, 2));
  const mass = hasMargins ? received(weights) : [];
  const heaviestMass = Math.max(...mass, 1e-9);
  // names of columns are all turned, or none is
  const isUpright = panel.keys.every((name) => [...String(name)].length <= UPRIGHT);
  const labels = (names, chosen) => html`${names.map((name, i) => html`<div key=${i} title=${name}
    class=${i === chosen ? "here" : ""}><bdi>${name}</bdi></div>`)}`;
  return html`<div class="map">
    <p class="cell" aria-live="polite">${isShown ? told(panel, here)
      : hint ?? "Point at a cell, or reach the map with Tab and the arrow keys."}</p>
    <div class="scroll"><div class=${`grid-of-cells ${isLong ? "small" : ""}`}
      style=${{ "--queries": rows, "--keys": columns,
        ...(size && { "--cell": `${size.wide}px`, "--tall": `${size.tall}px` }) }}>
      <div class="axis">${isShort ? "query" : panel.queryTitle} ↓<br />${isShort ? "key" : panel.keyTitle} →</div>
      <div class=${`columns${isUpright ? " upright" : ""}`} aria-hidden="true">${!isLong && labels(panel.keys, markedKey)}</div>
      <div class="rows" aria-hidden="true">${!isLong && labels(panel.queries, marked)}</div>
      <div class="cells" role="application" tabIndex="0" ref=${box}
        aria-label=${`${label ?? panel.title}: ${extent ?? `${rows} queries by ${columns} keys`}. Arrow keys move `
          + `from cell to cell${focus ? ", Enter pins the query" : ""}.`}
        onPointerMove=${pointed} onPointerLeave=${left} onPointerDown=${pointed}
        onClick=${(event) => focus?.toggle("query", here.query, event.shiftKey)}
        onFocus=${() => setShown(true)} onBlur=${() => { setShown(false); focus?.setHover(null); }}
        onKeyDown=${pressed}>
        <canvas ref=${canvas} aria-hidden="true"></canvas>
        ${marks?.map(({ query, key, kind }) => html`<i key=${`${kind}${query}-${key}`}
          class=${`mark ${kind}`} style=${{ "--row": query, "--column": key }}></i>`)}
        ${marked != null && html`<i class="cross row" style=${{ "--at": marked }}></i>`}
        ${markedKey != null && html`<i class="cross column" style=${{ "--at": markedKey }}></i>`}
      </div>
      ${hasMargins && html`<div class="entropies" aria-hidden="true" title="entropy of each row">
        ${weights.map((row, i) => html`<i key=${i}
          style=${{ width: `${(100 * entropy(row) / spread).toFixed(1)}%` }}></i>`)}</div>
        <div class="received" aria-hidden="true" title="weight that each key receives">
        ${mass.map((sum, j) => html`<i key=${j}
          style=${{ height: `${(100 * sum / heaviestMass).toFixed(1)}%` }}></i>`)}</div>`}
    </div></div>
    ${hasMargins && html`<p class="quiet small margins">Bars at the right: how spread each row is (entropy,
      full width ${spread.toFixed(2)} nats = even). Bars below: weight that each key receives from all
      queries (the longest: ${heaviestMass.toFixed(2)}).</p>`}
  </div>`;
}
