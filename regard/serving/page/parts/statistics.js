// What each head does, as a table that can be sorted; a row's button shows the head.

import { html, useState } from "../drawing/vendor/preact.js";
import { said, written } from "../drawing/numbers.js";
import { get } from "./server.js";
import { useAnswer } from "./state.js";

const COLUMNS = [
  ["entropy", "entropy, nats"], ["distance", "distance"], ["sink", "largest share of one key"],
  ["previous", "place before"], ["same", "own place"], ["next", "place after"],
  ["same_word", "same piece"], ["redundancy", "likeness to its twin"],
];

export function Statistics({ record, kind, view, choose }) {
  const [sorted, setSorted] = useState(null);
  const given = useAnswer(() => get(["records", record, "statistics", kind]), [record, kind]);
  if (given.error) return html`<p class="error" role="alert">${given.error}</p>`;
  if (!given.value) return html`<p role="status" class="quiet">Counting …</p>`;
  const columns = COLUMNS.filter(([key]) => given.value.heads.some((head) => head[key] != null));
  const heads = sorted ? [...given.value.heads].sort((a, b) => (b[sorted] ?? -1) - (a[sorted] ?? -1))
    : given.value.heads;
  const twin = (head) => (head.twin ? ` (${head.twin[0] + 1}.${head.twin[1] + 1})` : "");
  return html`<details class="numbers"><summary>What each head does</summary>
    <div class="wide scroll" tabIndex="0" role="region" aria-label="statistics of heads"><table>
    <caption>${kind} attention${given.value.every > 1 ? `, one query in ${given.value.every}` : ""};
      choose a title to sort by it, largest first</caption>
    <thead><tr><th scope="col"><button type="button" onClick=${() => setSorted(null)}>head</button></th>
      ${columns.map(([key, name]) => html`<th scope="col" key=${key}
        aria-sort=${sorted === key ? "descending" : "none"}><button type="button"
        onClick=${() => setSorted(key)}>${name}</button></th>`)}</tr></thead>
    <tbody>${heads.map((head) => html`<tr key=${`${head.layer}.${head.head}`}><th scope="row">
      <button type="button" aria-pressed=${String(view.layer === head.layer && view.head === head.head)}
        onClick=${() => choose(head.layer, head.head)}
        >layer ${said(head.layer)}, head ${said(head.head)}</button></th>
      ${columns.map(([key]) => html`<td key=${key}>${head[key] == null ? "–" : written(head[key])}${
        key === "redundancy" ? twin(head) : ""}</td>`)}</tr>`)}</tbody></table></div></details>`;
}
