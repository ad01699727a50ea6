// The controls of a record: kind, quantity, layer, head, words or pieces, special tokens, scale.

import { html, useEffect } from "./vendor/preact.js";
import { scaleOf, scalesFor } from "./colours.js";
import { named, places, said } from "./numbers.js";
import { isOfLetters } from "./panel.js";

// an option is a key, a name, and whether it is disabled
export function Select({ label, value, options, onChange }) {
  return html`<label>${label} <select value=${value}
    onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([key, name, isOff]) => html`<option key=${key} value=${key} disabled=${Boolean(isOff)}
      selected=${String(key) === String(value)}>${name}</option>`)}</select></label>`;
}

export function Range({ label, value, low, high, step, onInput, said = value }) {
  return html`<label>${label} <input type="range" min=${low} max=${high} step=${step} value=${value}
    onInput=${(event) => onInput(event.target.value)} /> <output>${said}</output></label>`;
}

export function Check({ label, isOn, onChange }) {
  return html`<label class="check"><input type="checkbox" checked=${isOn}
    onChange=${(event) => onChange(event.target.checked)} /> ${label}</label>`;
}

function Shown({ one, view, change }) {
  const { settings } = view;
  const all = Object.entries(one.shown);
  return html`${all.length > 1 && html`<${Select} label="quantity" value=${view.shown}
      options=${all.map(([key, each]) => [key, each.why_not
        ? `${each.title} (${each.why_not})` : each.title, each.why_not])}
      onChange=${(shown) => change({ shown: shown === "weights" ? "" : shown, pin: "" })} />`}
    ${settings.temperature != null && html`<label>temperature <input type="number" min="0.05" max="20"
      step="0.05" value=${settings.temperature}
      onChange=${(event) => change({ temperature: event.target.value === "1" ? "" : event.target.value })}
      /></label>`}
    ${settings.residual != null && html`<${Range} label="residual" low="0" high="1" step="0.05"
      value=${settings.residual} onInput=${(residual) => change({ residual })} />`}`;
}

export function Controls({ record, view, params, change, hasWords = true }) {
  const one = record.attention[view.kind], { quantity } = view;
  useShortcuts(one, view, change);
  const scale = scaleOf(params.scale, quantity.is_share);
  return html`<div class="bar">
    <${Select} label="attention" value=${view.kind}
      options=${Object.keys(record.attention).map((kind) => [kind, kind])}
      onChange=${(kind) => change({ kind, layer: "", head: "", pin: "" })} />
    ${!quantity.is_joined && html`<${Select} label="layer" value=${said(view.layer)}
      options=${places(one.n_layers).map((i) => [said(i), named("layer", i)])}
      onChange=${(layer) => change({ layer })} />
    <${Select} label="head" value=${said(view.head)}
      options=${places(one.n_heads).map((i) => [said(i), named("head", i)])}
      onChange=${(head) => change({ head })} />`}
    <${Shown} one=${one} view=${view} change=${change} />
    <${Select} label="show" value=${view.unit}
      options=${[["words", "words"], ["pieces", isOfLetters(one) ? "letters" : "sub-word pieces"]]}
      onChange=${(unit) => change({ unit, pin: "" })} />
    <${Select} label="scale" value=${scalesFor(true).find(([, each]) => each === scale)[0]}
      options=${scalesFor(quantity.is_share).map(([key, each]) => [key, each.name])}
      onChange=${(next) => change({ scale: next === "linear" ? "" : next })} />
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
      if (isTyping(event) || view.quantity.is_joined) return;
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
