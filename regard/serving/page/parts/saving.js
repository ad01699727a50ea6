// What is shown as a file: a figure for papers, the numbers, and a link that shows it again.

import { html, useState } from "../drawing/vendor/preact.js";
import { MEAN } from "../drawing/numbers.js";
import { Group } from "../drawing/side_panel.js";
import { download } from "../drawing/table.js";
import { figure } from "./server.js";

const FORMATS = ["pdf", "svg", "png"];

export function Saving({ record, view, params, panel }) {
  const [told, setTold] = useState("");
  const { kind, layer, head, unit } = view;
  const wish = { ...(layer === MEAN ? {} : { layer }), ...(head === MEAN ? {} : { head }), unit, ...(params.map ? { map: params.map } : {}) };
  const copy = async () => {
    try { await navigator.clipboard.writeText(location.href); setTold("The link is copied."); } catch { setTold(location.href); }
  };
  // a figure draws the weights of the map; what else is shown of it has no figure
  const hasFigure = view.shown === "weights" && (view.settings.temperature ?? 1) === 1 && !view.isHiding;
  return html`<${Group} title="Save"><div class="save">
    ${hasFigure && FORMATS.map((format) => html`<a key=${format} href=${figure(record, kind, format, wish)} download
      aria-label=${`Save the heat map as ${format.toUpperCase()}`}>${format.toUpperCase()}</a>`)}
    <button type="button" onClick=${() => download(panel)}>CSV</button>
    <button type="button" onClick=${copy}>Copy link</button></div>
    <p class="quiet small" role="status">${told}</p></${Group}>`;
}
