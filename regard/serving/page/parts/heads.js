// Layers down, heads across: a small map of each, one colour scale for all. Choosing one shows it.

import { html, useEffect, useMemo, useRef } from "../vendor/preact.js";
import { paint } from "./colours.js";
import { MEAN, chosen, entropy, largest, pooled } from "./numbers.js";

const SIZE = 64;

export const places = (count) => (count === 1 ? [0] : [...Array(count).keys(), MEAN]);
export const named = (what, place) => (place === MEAN ? `mean of ${what}s` : `${what} ${place + 1}`);

function Thumb({ weights, share, stops }) {
  const canvas = useRef(null);
  useEffect(() => { paint(canvas.current, weights, share, stops); });
  return html`<canvas ref=${canvas} aria-hidden="true"></canvas>`;
}

export function Heads({ one, weights, view, scale, stops, choose, focusRow }) {
  const box = useRef(null);
  const grid = useMemo(() => places(one.n_layers).map((layer) =>
    places(one.n_heads).map((head) => chosen(weights, layer, head))), [weights]);
  const top = useMemo(() => Math.max(...grid.flat().map(largest)), [grid]) || 1;
  const walk = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const here = document.activeElement.closest("td");
    if (!(event.key in steps) || !here) return;
    const [down, across] = steps[event.key];
    const rows = [...box.current.querySelectorAll("tbody tr")];
    rows[rows.indexOf(here.parentElement) + down]?.cells[here.cellIndex + across]
      ?.querySelector("button")?.focus();
    event.preventDefault();
  };
  // a word in focus makes a strip of each map: its row alone
  const part = (matrix) => (focusRow == null ? pooled(matrix, SIZE)
    : focusRow.map((place) => matrix[place]).filter(Boolean));
  return html`<div class="heads scroll" role="group" aria-label="every head" ref=${box}
    onKeyDown=${walk}><table>
    <thead><tr><td></td>${places(one.n_heads).map((head) =>
      html`<th scope="col" key=${head}>${named("head", head)}</th>`)}</tr></thead>
    <tbody>${places(one.n_layers).map((layer, i) => html`<tr key=${layer}>
      <th scope="row">${named("layer", layer)}</th>
      ${places(one.n_heads).map((head, j) => {
        const isChosen = layer === view.layer && head === view.head;
        const spread = grid[i][j].reduce((sum, row) => sum + entropy(row), 0) / grid[i][j].length;
        return html`<td key=${head}><button type="button" aria-pressed=${String(isChosen)}
          tabIndex=${isChosen ? 0 : -1}
          aria-label=${`${named("layer", layer)}, ${named("head", head)}, entropy ${spread.toFixed(2)}`}
          onClick=${() => choose(layer, head)}
          ><${Thumb} weights=${part(grid[i][j])} stops=${stops}
            share=${(weight) => scale.share(weight, top)} /></button></td>`;
      })}</tr>`)}</tbody></table>
    <p class="quiet small">One colour scale for all, up to ${top.toFixed(3)}.</p></div>`;
}
