// A panel: one matrix with names, as the address asks for it.

import { MEAN, chosen, largest, merged } from "./numbers.js";

const place = (text, count) => {
  if (count === 1) return 0;
  const number = Number(text);
  return Number.isInteger(number) && number >= 1 && number <= count ? number - 1 : MEAN;
};

// the same in words, where a view counts from 1: a number that there is, or "mean"
export const numbered = (text, count) => {
  const number = Number(text);
  return Number.isInteger(number) && number >= 1 && number <= count ? String(number) : "mean";
};

export function wished(params, record) {
  const kinds = Object.keys(record.attention);
  const kind = kinds.includes(params.kind) ? params.kind
    : kinds.includes("cross") ? "cross" : kinds[0];
  const one = record.attention[kind];
  return {
    kind,
    layer: place(params.layer, one.n_layers),
    head: place(params.head, one.n_heads),
    unit: params.unit === "pieces" ? "pieces" : "words",
    isHiding: params.specials === "hidden",
  };
}

export function title(one, { kind, layer, head }) {
  const [layers, heads] = [`${one.n_layers} layers`, `${one.n_heads} heads`];
  const where = layer !== MEAN && head !== MEAN ? `layer ${layer + 1}, head ${head + 1}`
    : layer !== MEAN ? `layer ${layer + 1}, mean of ${heads}`
      : head !== MEAN ? `head ${head + 1}, mean of ${layers}` : `mean of ${layers} × ${heads}`;
  return `${kind} attention, ${where}`;
}

function side(tokens, unit) {
  if (unit === "words") return { names: tokens.names, specials: new Set(tokens.specials) };
  const special = tokens.words.flatMap((word, i) => (tokens.specials.includes(word) ? [i] : []));
  return { names: tokens.pieces, specials: new Set(special) };
}

export function panelOf(record, weights, view) {
  const one = record.attention[view.kind];
  const pieces = chosen(weights, view.layer, view.head);
  const all = view.unit === "words" ? merged(pieces, one.queries, one.keys) : pieces;
  const [queries, keys] = [side(one.queries, view.unit), side(one.keys, view.unit)];
  const panel = {
    title: title(one, view), queryTitle: one.query_title, keyTitle: one.key_title,
    queries: queries.names, keys: keys.names, weights: all, isWords: view.unit === "words",
    specials: { query: queries.specials, key: keys.specials }, removed: "",
  };
  const shown = view.isHiding ? without(panel) : panel;
  return { ...shown, top: largest(shown.weights) || 1 };
}

// Special keys are taken out and each row summed to one again; what was taken out is said.
function without(panel) {
  const rest = (names, special) => names.map((_, i) => i).filter((i) => !special.has(i));
  const rows = rest(panel.queries, panel.specials.query);
  const columns = rest(panel.keys, panel.specials.key);
  if (!rows.length || !columns.length) return panel;
  let gone = 0;
  const weights = rows.map((i) => {
    const kept = columns.map((j) => panel.weights[i][j]);
    const sum = kept.reduce((a, b) => a + b, 0);
    gone += 1 - sum;
    return Float64Array.from(kept, (weight) => (sum > 0 ? weight / sum : 0));
  });
  const names = [...panel.specials.key].map((j) => panel.keys[j]);
  const share = (100 * gone / rows.length).toFixed(1);
  return {
    ...panel, weights, queries: rows.map((i) => panel.queries[i]),
    keys: columns.map((j) => panel.keys[j]), specials: { query: new Set(), key: new Set() },
    removed: names.length ? `${share} % of the weight, on ${names.join(", ")}, is hidden; the rest `
      + "of each row is made to sum to 1." : "",
  };
}
