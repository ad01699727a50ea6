// How the run learned: the curves of metrics.jsonl.

import { html } from "../drawing/vendor/preact.js";
import { get } from "../parts/server.js";
import { useAnswer } from "../parts/state.js";
import { Table } from "../drawing/table.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [640, 240, 64, 12, 12, 38];

function ticks(low, high, most = 6) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough);
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) out.push(k * step);
  return out;
}

const short = (number) => Number(number.toPrecision(6)).toString();

function Chart({ title, series }) {
  const points = Object.values(series).flat();
  const range = (axis) => {
    const all = points.map((point) => point[axis]);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return high > low ? [low, high] : [low - 0.5, high + 0.5];
  };
  const [[x0, x1], [y0, y1]] = [range(0), range(1)];
  const x = (value) => LEFT + (value - x0) / (x1 - x0) * (WIDE - LEFT - RIGHT);
  const y = (value) => HIGH - BOTTOM - (value - y0) / (y1 - y0) * (HIGH - TOP - BOTTOM);
  const names = Object.keys(series);
  const last = names.map((name) => `${name} ends at ${short(series[name].at(-1)[1])}`).join(", ");
  return html`<figure class="chart"><figcaption>${title} ${names.map((name, i) => html`<span key=${name}>
      <i class=${`swatch line-${i + 1}`}></i>${name}</span>`)}</figcaption>
    <svg viewBox=${`0 0 ${WIDE} ${HIGH}`} role="img" aria-label=${`${title}: ${last}`}>
      ${ticks(y0, y1).map((tick) => html`<g key=${`y${tick}`}><line class="rule" x1=${LEFT}
        x2=${WIDE - RIGHT} y1=${y(tick)} y2=${y(tick)} /><text x=${LEFT - 6} y=${y(tick) + 4}
        text-anchor="end">${short(tick)}</text></g>`)}
      ${ticks(x0, x1, 7).map((tick) => html`<text key=${`x${tick}`} x=${x(tick)} y=${HIGH - BOTTOM + 16}
        text-anchor="middle">${short(tick)}</text>`)}
      <text x=${(LEFT + WIDE) / 2} y=${HIGH - 4} text-anchor="middle">updates</text>
      ${names.map((name, i) => html`<polyline key=${name} class=${`curve line-${i + 1}`}
        points=${series[name].map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ")} />`)}
    </svg>
    <details><summary>The numbers as a table</summary><${Table} caption=${title}
      heads=${["update", ...names]} rows=${rows(series, names)} /></details></figure>`;
}

function rows(series, names) {
  const by = new Map();
  names.forEach((name, i) => series[name].forEach(([step, value]) => {
    if (!by.has(step)) by.set(step, names.map(() => ""));
    by.get(step)[i] = short(value);
  }));
  return [...by].sort((a, b) => a[0] - b[0]).map(([step, values]) => [short(step), ...values]);
}

export function Training({ run, info }) {
  const given = useAnswer(() => info?.has_metrics && run && get(["runs", run, "curves"]), [run, info]);
  if (given.error) return html`<p class="error" role="alert">${given.error}</p>`;
  if (info && !info.has_metrics) {
    return html`<p>This run has no metrics.jsonl, so how it was trained is not known.</p>`;
  }
  if (!given.value) return null;
  const [full, empty] = [true, false].map((isFull) => given.value.charts.filter(({ series }) =>
    Object.keys(series).length > 0 === isFull));
  return html`<p class="quiet">${given.value.updates.toLocaleString("en-GB")} updates${
      given.value.every > 1 ? `; one in ${given.value.every} is drawn` : ""}.</p>
    <div class="charts">${full.map((chart) => html`<${Chart} key=${chart.title} ...${chart} />`)}
    </div>${empty.length > 0 && html`<p class="quiet">Not measured: ${
      empty.map(({ title }) => title).join("; ")}.</p>`}`;
}
