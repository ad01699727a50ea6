// A panel: one matrix with names, chosen by the parameters in the page's address.

import { MEAN, chosen, merged, whereOf, zeros } from "./numbers.js";

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

const between = (text, low, high, usual) => {
  const number = Number(text);
  return text && number >= low && number <= high ? number : usual;
};

// the quantity that is shown: its name, the server's facts about it, and its settings
function shownOf(params, one) {
  const wish = one.shown[params.shown] && !one.shown[params.shown].why_not ? params.shown : "weights";
  const all = { temperature: between(params.temperature, 0.05, 20, 1), residual: between(params.residual, 0, 1, 0.5) };
  const settings = Object.fromEntries(one.shown[wish].settings.map((name) => [name, all[name]]));
  return { shown: wish, quantity: one.shown[wish], settings };
}

// whether the model reads words letter by letter; then pieces are shown, not words
export const isOfLetters = ({ keys }) => keys.pieces.length > keys.names.length
  && keys.pieces.every((piece, i) => keys.specials.includes(keys.words[i]) || [...piece].length === 1);

export function wished(params, record) {
  const kinds = Object.keys(record.attention);
  const kind = kinds.includes(params.kind) ? params.kind
    : ["sequence", "cross"].find((usual) => kinds.includes(usual)) ?? kinds[0];
  const one = record.attention[kind], what = shownOf(params, one);
  return {
    kind, ...what,
    layer: what.quantity.is_joined ? 0 : place(params.layer, one.n_layers),
    head: what.quantity.is_joined ? 0 : place(params.head, one.n_heads),
    unit: ["pieces", "words"].includes(params.unit) ? params.unit : isOfLetters(one) ? "pieces" : "words",
    isHiding: params.specials === "hidden",
  };
}

export function title(one, { kind, layer, head, shown, quantity, settings }) {
  const heated = settings.temperature && settings.temperature !== 1 ? `, temperature ${settings.temperature}` : "";
  const kept = settings.residual != null ? `, residual ${settings.residual}` : "";
  if (quantity.is_joined) return `${kind} attention, ${quantity.title}${kept}`;
  const where = whereOf(layer, head, one.n_layers, one.n_heads);
  return `${kind} attention, ${where}${shown === "weights" ? "" : `, ${quantity.title}`}${heated}`;
}

function side(tokens, unit) {
  if (unit === "words") return { names: tokens.names, specials: new Set(tokens.specials) };
  const special = tokens.words.flatMap((word, i) => (tokens.specials.includes(word) ? [i] : []));
  return { names: tokens.pieces, specials: new Set(special) };
}

// 1 where the mask of a chosen layer is open, from its spans of keys; null if the mask is not known
export function visibleOf(layers, layer, rows, columns) {
  const some = layer === MEAN ? layers : [layers[layer]];
  if (some.some((spans) => !spans)) return null;
  const out = zeros(rows, columns);
  some.forEach((spans) => spans.forEach((row, i) => row.forEach(([first, behind]) =>
    out[i].fill(1, first, behind))));
  return out;
}

// a word is visible if any of its pieces is
const mergedVisible = (visible, queries, keys) =>
  merged(visible, queries, keys).map((row) => row.map((count) => Number(count > 0)));

const counted = (visible) => visible?.map((row) => row.reduce((a, b) => a + b, 0));

export function panelOf(record, numbers, view) {
  const one = record.attention[view.kind], isWords = view.unit === "words";
  const pieces = chosen(numbers.given, view.layer, view.head);
  const seen = visibleOf(numbers.visible, view.layer, one.queries.pieces.length, one.keys.pieces.length);
  const [queries, keys] = [side(one.queries, view.unit), side(one.keys, view.unit)];
  const visible = seen && isWords ? mergedVisible(seen, one.queries, one.keys) : seen;
  const panel = {
    title: title(one, view), queryTitle: one.query_title, keyTitle: one.key_title,
    queries: queries.names, keys: keys.names, isWords,
    weights: isWords ? merged(pieces, one.queries, one.keys) : pieces,
    visible, isShare: view.quantity.is_share, unit: view.quantity.unit,
    verbs: view.shown === "weights" ? ["looks at", "is seen by"] : ["takes from", "gives to"],
    specials: { query: queries.specials, key: keys.specials }, removed: "",
  };
  const shown = view.isHiding ? without(panel) : panel;
  const hasMasked = Boolean(shown.visible?.some((row) => row.some((one_) => !one_)));
  return { ...shown, hasMasked, allowed: counted(shown.visible) };
}

// Special keys are left out and each row is scaled to its former sum; the text names what was left out.
function without(panel) {
  const rest = (names, special) => names.map((_, i) => i).filter((i) => !special.has(i));
  const rows = rest(panel.queries, panel.specials.query);
  const columns = rest(panel.keys, panel.specials.key);
  if (!rows.length || !columns.length) return panel;
  const sum = (row) => row.reduce((a, b) => a + b, 0);
  let [left, total] = [0, 0];
  const weights = rows.map((i) => {
    const kept = columns.map((j) => panel.weights[i][j]), [part, all] = [sum(kept), sum(panel.weights[i])];
    left += part;
    total += all;
    return Float64Array.from(kept, (weight) => (part > 0 ? weight * all / part : 0));
  });
  const names = [...panel.specials.key].map((j) => panel.keys[j]);
  const share = (100 * (1 - left / (total || 1))).toFixed(1);
  return {
    ...panel, weights, queries: rows.map((i) => panel.queries[i]),
    visible: panel.visible && rows.map((i) => Float64Array.from(columns, (j) => panel.visible[i][j])),
    keys: columns.map((j) => panel.keys[j]), specials: { query: new Set(), key: new Set() },
    removed: names.length ? `${share} % of the weight, on ${names.join(", ")}, is hidden; the rest `
      + "of each row is made to sum to what the row did." : "",
  };
}
