// One matrix of the worked example: every number of it can be pointed at and changed.

import { html, useEffect, useRef, useState } from "../drawing/vendor/preact.js";
import { nameOf } from "./arithmetic.js";
import { Formula } from "./formulas.js";

function Cell({ value, name, label, isEdited, isSource, change, point, isHidden }) {
  const [draft, setDraft] = useState(null);
  const last = useRef(value), [flashes, setFlashes] = useState(0);
  useEffect(() => {
    if (last.current !== value) { last.current = value; setFlashes((count) => count + 1); }
  }, [value]);
  const finish = () => {
    const number = Number(draft);
    if (draft != null && draft.trim() !== "" && Number.isFinite(number) && number !== value) change(name, number);
    setDraft(null);
    point(null);
  };
  return html`<td class=${[isEdited && "edited", isSource && "source", isHidden && "masked"]
    .filter(Boolean).join(" ")}><input type="text" inputmode="decimal" aria-label=${label}
    key=${flashes} class=${flashes ? "flash" : ""} data-name=${name} data-value=${value}
    value=${draft ?? Number(value.toFixed(4))}
    onFocus=${(event) => { setDraft(String(value)); point(name); event.target.select(); }}
    onInput=${(event) => setDraft(event.target.value)} onBlur=${finish}
    onKeyDown=${(event) => event.key === "Enter" && event.target.blur()}
    onPointerEnter=${() => point(name)} onPointerLeave=${() => point(null)} /></td>`;
}

export function Stage({ stage, head, title, rows, names, columns, edits, change, point, marked, hidden,
  isScaled, isCross, isGiven }) {
  const isSource = (i, j) => marked.some(([other, how, a, b]) => other === stage
    && ((how === "row" && a === i) || (how === "column" && a === j)
      || (how === "cell" && a === i && b === j)));
  // given queries, keys and values have no formula
  const formula = isGiven && ["Q", "K", "V"].includes(stage) ? "" : stage;
  return html`<figure class=${`stage ${stage[0]}`}><figcaption>${title}
    <${Formula} stage=${formula} isScaled=${isScaled} isCross=${isCross} /></figcaption>
    <div class="scroll"><table><thead><tr><td></td>${(columns ?? rows[0].map((_, j) => j + 1))
      .map((name, j) => html`<th scope="col" key=${j}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${i}><th scope="row">${names?.[i] ?? i + 1}</th>
      ${row.map((number, j) => {
        const name = nameOf(stage, head, i, j);
        return html`<${Cell} key=${j} value=${number} name=${name} change=${change} point=${point}
          label=${`${title}, row ${names?.[i] ?? i + 1}, column ${columns?.[j] ?? j + 1}`}
          isEdited=${name in edits} isSource=${isSource(i, j)} isHidden=${hidden?.(i, j)} />`;
      })}</tr>`)}</tbody></table></div></figure>`;
}
