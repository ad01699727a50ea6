// Layers down, heads across: a small map of each, one colour scale for all. Clicking one selects it.

import { html, useEffect, useMemo, useRef } from "./vendor/preact.js";
import { paint, topOf } from "./colours.js";
import { ARROWS, chosen, entropy, named, places, pooled, written } from "./numbers.js";
import { visibleOf } from "./panel.js";

const SIZE = 64;

export function Thumb({ part, scale, top, stops }) {
  const canvas = useRef(null);
  useEffect(() => { paint(canvas.current, part, scale, top, stops); }, [part, scale, top, stops]);
  return html`<canvas ref=${canvas} aria-hidden="true"></canvas>`;
}

// the maps of all layers and heads, and of their means
function gridOf(one, numbers) {
  const size = [one.queries.pieces.length, one.keys.pieces.length];
  return places(one.n_layers).map((layer) => {
    const visible = visibleOf(numbers.visible, layer, ...size);
    const allowed = visible?.map((row) => row.reduce((a, b) => a + b, 0));
    return places(one.n_heads).map((head) => ({ weights: chosen(numbers.given, layer, head), visible, allowed }));
  });
}

// the maps of one record, kept while it is shown: pictures of several sizes are made of them
const GRIDS = new WeakMap();
function keptGrid(one, numbers) {
  if (!GRIDS.has(numbers)) GRIDS.set(numbers, gridOf(one, numbers));
  return GRIDS.get(numbers);
}

// every head, and the means, at most `size` cells a side, and the largest value of all
export function thumbsOf(one, numbers, scale, size) {
  const grid = useMemo(() => keptGrid(one, numbers), [numbers]);
  const top = useMemo(() => Math.max(...grid.flat().map((each) => topOf(scale, each))), [grid, scale]);
  const parts = useMemo(() => grid.map((layer) => layer.map((each) => smaller(one, each, size))), [grid, size]);
  return { grid, top, parts };
}

function smaller(one, { weights, visible, allowed }, size) {
  const [n, keys] = [one.queries.pieces.length, one.keys.pieces.length], shown = pooled(weights, size);
  return { weights: shown, visible: visible && pooled(visible, size),
    allowed: shown.map((_, i) => allowed?.[Math.floor(i * n / Math.min(n, size))] ?? keys) };
}

// moves the focus in a grid of buttons by an arrow key
export function walked(event, buttons, columns) {
  const here = buttons.indexOf(document.activeElement);
  if (!(event.key in ARROWS) || here < 0) return;
  const [down, across] = ARROWS[event.key], next = here + down * columns + across;
  if (Math.floor((here + across) / columns) === Math.floor(here / columns)) buttons[next]?.focus();
  event.preventDefault();
}

export function Heads({ one, numbers, view, scale, stops, choose, focusRow }) {
  const box = useRef(null);
  const { grid, top, parts: whole } = thumbsOf(one, numbers, scale, SIZE);
  const walk = (event) => {
    const here = document.activeElement.closest("td");
    if (!(event.key in ARROWS) || !here) return;
    const [down, across] = ARROWS[event.key];
    const rows = [...box.current.querySelectorAll("tbody tr")];
    rows[rows.indexOf(here.parentElement) + down]?.cells[here.cellIndex + across]
      ?.querySelector("button")?.focus();
    event.preventDefault();
  };
  // a word in focus makes a strip of each map: its row alone
  const parts = useMemo(() => {
    if (focusRow == null) return whole;
    const rows = (matrix) => matrix && focusRow.map((place) => matrix[place]).filter(Boolean);
    const keys = one.keys.pieces.length;
    return grid.map((layer) => layer.map(({ weights, visible, allowed }) => ({ weights: rows(weights), visible: rows(visible),
      allowed: focusRow.map((place) => allowed?.[place] ?? keys) })));
  }, [grid, whole, String(focusRow)]);
  return html`<div class="heads scroll" role="group" aria-label="every head" style=${{ "--across": places(one.n_heads).length }} ref=${box}
    onKeyDown=${walk}><table>
    <thead><tr><td></td>${places(one.n_heads).map((head) =>
      html`<th scope="col" key=${head}>${named("head", head)}</th>`)}</tr></thead>
    <tbody>${places(one.n_layers).map((layer, i) => html`<tr key=${layer}>
      <th scope="row">${named("layer", layer)}</th>
      ${places(one.n_heads).map((head, j) => {
        const isChosen = layer === view.layer && head === view.head, each = grid[i][j];
        const spread = each.weights.reduce((sum, row) => sum + entropy(row), 0) / each.weights.length;
        return html`<td key=${head}><button type="button" aria-pressed=${String(isChosen)}
          tabIndex=${isChosen ? 0 : -1}
          aria-label=${`${named("layer", layer)}, ${named("head", head)}, entropy ${spread.toFixed(2)}`}
          onClick=${() => choose(layer, head)}
          ><${Thumb} part=${parts[i][j]} scale=${scale} top=${top} stops=${stops} /></button></td>`;
      })}</tr>`)}</tbody></table>
    <p class="quiet small">One colour scale for all: ${scale.name}, up to ${written(top)}.</p></div>`;
}
