// Two columns of words joined by curves: thicker and darker for larger weights. For each query the
// fewest keys are drawn that reach the chosen share of its weight.

import { html } from "./vendor/preact.js";
import { largest, quoted, reaching, written } from "./numbers.js";

const ROW = 28, WIDE = 300, MOST = 60;

function linksOf(panel, share) {
  return panel.weights.flatMap((row, query) =>
    reaching(row, share).map(([weight, key]) => ({ query, key, weight })));
}

export function Links({ panel, focus, share, setShare }) {
  const rows = Math.max(panel.queries.length, panel.keys.length);
  if (rows > MOST) {
    return html`<p class="quiet">Links are drawn for at most ${MOST} words; there are ${rows}. The
      heat map and the atlas show longer texts.</p>`;
  }
  const links = linksOf(panel, share), at = focus.at;
  // quantities that are not shares may be above 1, so they are scaled by the largest
  const most = panel.isShare ? 1 : largest(panel.weights) || 1;
  const isLit = ({ query, key }) => at.some(({ side, place }) =>
    place === (side === "query" ? query : key));
  const middle = (place) => (place + 0.5) * ROW;
  const list = (side, names) => html`<ol class=${`ends ${side}`}>${names.map((name, place) => html`
    <li key=${place}><button type="button" tabIndex="-1"
      class=${at.some((one) => one.side === side && one.place === place) ? "here" : ""}
      onPointerEnter=${() => focus.setHover({ side, place })}
      onPointerLeave=${() => focus.setHover(null)}
      onClick=${(event) => focus.toggle(side, place, event.shiftKey)}><bdi>${name}</bdi></button></li>`)}
    </ol>`;
  const strongest = [...links].sort((a, b) => b.weight - a.weight)[0];
  return html`<figure class="links"><figcaption>${strongest
    ? html`The strongest link: <bdi>${quoted(panel.queries[strongest.query])}</bdi> ${panel.verbs[0]}
      <bdi> ${quoted(panel.keys[strongest.key])}</bdi> (${written(strongest.weight)}).`
    : "No link at all."}</figcaption>
    <label class="slider">links until <input type="range" min="0.1" max="1" step="0.05" value=${share}
      onInput=${(event) => setShare(event.target.value)} /> ${Math.round(100 * share)} % of each
      query's weight, at most 5</label>
    <div class="scroll"><div class="two">
      <div><div class="name">${panel.keyTitle}</div>${list("key", panel.keys)}</div>
      <div class="between"><div class="name"> </div>
        <svg height=${rows * ROW} viewBox=${`0 0 ${WIDE} ${rows * ROW}`} role="img"
          preserveAspectRatio="none"
          aria-label=${`${links.length} links between ${panel.queries.length} queries and `
            + `${panel.keys.length} keys; the table has the numbers`}>
          ${links.map((link) => html`<path key=${`${link.query}-${link.key}`}
            class=${at.length ? (isLit(link) ? "lit" : "dim") : ""}
            d=${`M0 ${middle(link.key)}C${WIDE / 3} ${middle(link.key)} ${2 * WIDE / 3} `
              + `${middle(link.query)} ${WIDE} ${middle(link.query)}`}
            stroke-width=${(0.5 + 5 * link.weight / most).toFixed(2)}
            stroke-opacity=${at.length && !isLit(link) ? 0.06 : (0.15 + 0.85 * link.weight / most).toFixed(3)}
            />`)}
        </svg></div>
      <div><div class="name">${panel.queryTitle}</div>${list("query", panel.queries)}</div>
    </div></div></figure>`;
}
