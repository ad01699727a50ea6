// The numbers behind a picture, as a table that can be read aloud and copied.

import { html } from "./vendor/preact.js";
import { heaviest, written } from "./numbers.js";

const MOST = 60, SHOWN = 5;

export function Numbers({ panel, digits = written, summary = "The numbers as a table" }) {
  const isLong = Math.max(panel.queries.length, panel.keys.length) > MOST;
  const heads = isLong ? [...Array(SHOWN).keys()].map((i) => `${i + 1}.`) : panel.keys;
  return html`<details class="numbers"><summary>${summary}</summary>
    <button type="button" onClick=${() => download(panel)}>Save as CSV</button>
    <div class="wide scroll" tabIndex="0" role="region" aria-label=${`numbers: ${panel.title}`}><table>
    <caption>${panel.title}${isLong ? `; the ${SHOWN} heaviest keys of each query` : ""}</caption>
    <thead><tr><th scope="col">${panel.queryTitle} ↓ ${panel.keyTitle} →</th>
      ${heads.map((name, i) => html`<th scope="col" key=${i}><bdi>${name}</bdi></th>`)}</tr></thead>
    <tbody>${panel.weights.map((row, i) => html`<tr key=${i}>
      <th scope="row"><bdi>${panel.queries[i]}</bdi></th>
      ${isLong ? heaviest(row).slice(0, SHOWN).map(([weight, place]) => html`<td key=${place}>
          <bdi>${panel.keys[place]}</bdi> ${digits(weight)}</td>`)
        : [...row].map((weight, j) => html`<td key=${j} class=${classOf(panel, row, i, j)}>${
          isMasked(panel, i, j) ? "" : digits(weight)}</td>`)}
      </tr>`)}</tbody></table></div></details>`;
}

// what is masked has no number; the style sheet says so in its place
const isMasked = (panel, i, j) => Boolean(panel.visible) && !panel.visible[i][j];
const classOf = (panel, row, i, j) => (isMasked(panel, i, j) ? "masked"
  : row[j] > 0 && row[j] === Math.max(...row) ? "most" : "");

export function download(panel) {
  // a quote keeps spreadsheets from running a cell that begins like a formula
  const safe = (name) => `"${String(name).replace(/^([=+\-@\t\r])/, "'$1").replaceAll('"', '""')}"`;
  const lines = [["", ...panel.keys.map(safe)], ...panel.weights.map((row, i) =>
    [safe(panel.queries[i]), ...[...row].map((weight, j) => (isMasked(panel, i, j) ? "" : weight))])];
  const file = new Blob([lines.map((line) => line.join(",")).join("\n")], { type: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "weights.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function Table({ caption, heads, rows }) {
  return html`<div class="wide scroll" tabIndex="0" role="region" aria-label=${caption}><table>
    <caption>${caption}</caption>
    <thead><tr>${heads.map((name, i) => html`<th scope="col" key=${i}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, ...cells], i) => html`<tr key=${i}>
      <th scope="row"><bdi>${name}</bdi></th>
      ${cells.map((cell, j) => html`<td key=${j}>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}
