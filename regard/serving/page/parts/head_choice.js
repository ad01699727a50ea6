// One head of a record: which kind, layer and head, chosen by hand or named by the address.

import { html } from "../drawing/vendor/preact.js";
import { Select } from "../drawing/controls.js";

export const counted = (count) => [...Array(count ?? 0).keys()].map((i) => [i + 1, i + 1]);

// one head: kind, layer and head, both counted from 1
export function HeadChoice({ attention, kind, layer, head, change }) {
  const one = attention[kind];
  return html`<${Select} label="attention" value=${kind}
      options=${Object.keys(attention).map((each) => [each, each])}
      onChange=${(next) => change({ kind: next, layer: "", head: "" })} />
    <${Select} label="layer" value=${layer} options=${counted(one.n_layers)}
      onChange=${(next) => change({ layer: next })} />
    <${Select} label="head" value=${head} options=${counted(one.n_heads)}
      onChange=${(next) => change({ head: next })} />`;
}

// the head that an address names, limited to the heads that exist
export function headOf(params, attention, first) {
  const kinds = Object.keys(attention ?? {});
  const kind = kinds.includes(params.kind) ? params.kind : kinds.includes(first) ? first : kinds[0];
  const one = attention?.[kind];
  const limited = (value, count) => Math.min(Math.max(Math.trunc(Number(value)) || 1, 1), count ?? 1);
  return { kind, one, layer: limited(params.layer, one?.n_layers), head: limited(params.head, one?.n_heads) };
}
