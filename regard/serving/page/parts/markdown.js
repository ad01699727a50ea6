// The Markdown of the course: headings, paragraphs, indented equations, **bold**, *emphasis*, `code`.

import { html } from "../drawing/vendor/preact.js";

const MARKED = /\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|`([^`]+)`/g;

function inline(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(MARKED)) {
    const [whole, bold, stressed, code] = found;
    parts.push(text.slice(end, found.index), bold ? html`<b>${inline(bold)}</b>`
      : stressed ? html`<em>${stressed}</em>` : html`<code>${code}</code>`);
    end = found.index + whole.length;
  }
  return [...parts, text.slice(end)];
}

function block(text) {
  if (text.startsWith("    ")) return html`<pre class="equation">${text.replace(/^ {4}/gm, "")}</pre>`;
  if (text.startsWith("## ")) return html`<h3>${inline(text.slice(3))}</h3>`;
  if (text.startsWith("# ")) return html`<h2>${inline(text.slice(2))}</h2>`;
  return html`<p>${inline(text)}</p>`;
}

export const Markdown = ({ text }) => text.split(/\n{2,}/).map(block);
