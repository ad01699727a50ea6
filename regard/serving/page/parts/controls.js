// What is chosen above every look: kind, layer, head, words or pieces, special tokens, scale.

import { html, useEffect } from "../vendor/preact.js";
import { SCALES } from "./colours.js";
import { named, places } from "./heads.js";
import { MEAN } from "./numbers.js";

export function Select({ label, value, options, onChange }) {
  return html`<label>${label} <select value=${value}
    onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, name]) => html`<option key=${key} value=${key}
      selected=${String(key) === String(value)}>${name}</option>`)}</select></label>`;
}

export function Check({ label, isOn, onChange }) {
  return html`<label class="check"><input type="checkbox" checked=${isOn}
    onChange=${(event) => onChange(event.target.checked)} /> ${label}</label>`;
}

export const said = (place) => (place === MEAN ? "mean" : place + 1);

export function Controls({ record, view, params, change, hasWords = true }) {
  const one = record.attention[view.kind];
  useShortcuts(one, view, change);
  return html`<div class="bar">
    <${Select} label="attention" value=${view.kind}
      options=${Object.keys(record.attention).map((kind) => [kind, kind])}
      onChange=${(kind) => change({ kind, layer: "", head: "", pin: "" })} />
    <${Select} label="layer" value=${said(view.layer)}
      options=${places(one.n_layers).map((i) => [said(i), named("layer", i)])}
      onChange=${(layer) => change({ layer })} />
    <${Select} label="head" value=${said(view.head)}
      options=${places(one.n_heads).map((i) => [said(i), named("head", i)])}
      onChange=${(head) => change({ head })} />
    <${Select} label="show" value=${view.unit}
      options=${[["words", "words"], ["pieces", "sub-word pieces"]]}
      onChange=${(unit) => change({ unit, pin: "" })} />
    <${Select} label="colours" value=${params.scale ?? "linear"}
      options=${Object.entries(SCALES).map(([key, scale]) => [key, scale.name])}
      onChange=${(scale) => change({ scale: scale === "linear" ? "" : scale })} />
    <${Check} label="hide special tokens" isOn=${view.isHiding}
      onChange=${(isOn) => change({ specials: isOn ? "hidden" : "", pin: "" })} />
    ${hasWords && html`<${Check} label="numbers under words" isOn=${params.numbers === "on"}
      onChange=${(isOn) => change({ numbers: isOn ? "on" : "" })} />`}
  </div>`;
}

export const isTyping = (event) => {
  const { target } = event;
  return event.ctrlKey || event.metaKey || event.altKey || target.isContentEditable
    || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
};

// [ and ] change the layer, comma and full stop the head
function useShortcuts(one, view, change) {
  useEffect(() => {
    const pressed = (event) => {
      if (isTyping(event)) return;
      const turn = (place, count, by) => {
        const all = places(count);
        return said(all[(all.indexOf(place) + by + all.length) % all.length]);
      };
      const moves = { "[": () => ({ layer: turn(view.layer, one.n_layers, -1) }),
        "]": () => ({ layer: turn(view.layer, one.n_layers, 1) }),
        ",": () => ({ head: turn(view.head, one.n_heads, -1) }),
        ".": () => ({ head: turn(view.head, one.n_heads, 1) }) };
      if (event.key in moves) change(moves[event.key]());
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
