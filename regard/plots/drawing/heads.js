// Layers down, heads across: a small map of each, one colour scale for all. Clicking one selects it.

import { html, useEffect, useMemo, useRef } from "./vendor/preact.js";
import { paint, topOf } from "./colours.js";
import { ARROWS, chosen, entropy, named, places, pooled, written } from "./numbers.js";
import { visibleOf } from "./panel.js";

const SIZE = 64;

function Thumb({ part, scale, top, stops }) {
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

export function Heads({ one, numbers, view, scale, stops, choose, focusRow }) {
  const box = useRef(null);
  const grid = useMemo(() => gridOf(one, numbers), [numbers]);
  const top = useMemo(() => Math.max(...grid.flat().map((each) => topOf(scale, each))), [grid, scale]);
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
    const part = (matrix) => matrix && (focusRow == null ? pooled(matrix, SIZE)
      : focusRow.map((place) => matrix[place]).filter(Boolean));
    const [n, keys] = [one.queries.pieces.length, one.keys.pieces.length];
    const rowOf = (i) => focusRow?.[i] ?? Math.floor(i * n / Math.min(n, SIZE));
    return grid.map((layer) => layer.map(({ weights, visible, allowed }) => {
      const shown = part(weights);
      return { weights: shown, visible: part(visible), allowed: shown.map((_, i) => allowed?.[rowOf(i)] ?? keys) };
    }));
  }, [grid, String(focusRow)]);
  return html`<div class="heads scroll" role="group" aria-label="every head" ref=${box}
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
