// Matrices are arrays of rows. Everything that is drawn is computed from Python's weights here.

export const MEAN = "mean";

// the layers or heads that can be chosen; a single one equals its mean, so "mean" is not offered
export const places = (count) => (count === 1 ? [0] : [...Array(count).keys(), MEAN]);
export const named = (what, place) => (place === MEAN ? `mean of ${what}s` : `${what} ${place + 1}`);
export const said = (place) => (place === MEAN ? "mean" : place + 1);

// the chosen layer and head, in words
export function whereOf(layer, head, nLayers, nHeads) {
  const [layers, heads] = [`${nLayers} layers`, `${nHeads} heads`];
  if (layer !== MEAN && head !== MEAN) return `layer ${layer + 1}, head ${head + 1}`;
  if (layer !== MEAN) return `layer ${layer + 1}, mean of ${heads}`;
  return head !== MEAN ? `head ${head + 1}, mean of ${layers}` : `mean of ${layers} × ${heads}`;
}

export const zeros = (rows, columns) =>
  Array.from({ length: rows }, () => new Float64Array(columns));

// the mean over the chosen layers and heads; `given` is { shape: [layers, heads, q, k], flat }
export function chosen({ shape, flat }, layer, head) {
  const [layers, heads, rows, columns] = shape;
  const some = (place, count) => (place === MEAN ? [...Array(count).keys()] : [place]);
  const out = zeros(rows, columns);
  const pairs = some(layer, layers).flatMap((i) => some(head, heads).map((j) => [i, j]));
  for (const [i, j] of pairs) {
    const first = (i * heads + j) * rows * columns;
    for (let q = 0; q < rows; q += 1) {
      for (let k = 0; k < columns; k += 1) out[q][k] += flat[first + q * columns + k] / pairs.length;
    }
  }
  return out;
}

// a word's weight: summed over the pieces of a key, averaged over those of a query
export function merged(weights, queries, keys) {
  const out = zeros(queries.names.length, keys.names.length);
  const sizes = new Array(queries.names.length).fill(0);
  queries.words.forEach((word) => { sizes[word] += 1; });
  weights.forEach((row, i) => {
    const word = queries.words[i];
    row.forEach((weight, j) => { out[word][keys.words[j]] += weight / sizes[word]; });
  });
  return out;
}

export const largest = (weights) => {
  let most = 0;
  for (const row of weights) for (const weight of row) if (weight > most) most = weight;
  return most;
};

export const entropy = (row) => {
  let out = 0;
  for (const weight of row) if (weight > 0) out -= weight * Math.log(weight);
  return out;
};

export const column = (weights, place) => weights.map((row) => row[place]);

export const received = (weights) =>
  [...weights[0] ?? []].map((_, j) => weights.reduce((sum, row) => sum + row[j], 0));

// places by weight, heaviest first
export const heaviest = (row) =>
  [...row].map((weight, place) => [weight, place]).sort((a, b) => b[0] - a[0]);

// the fewest keys whose weights reach a share of the row, at most `most` of them
export function reaching(row, share, most = 5) {
  const total = [...row].reduce((sum, weight) => sum + weight, 0);
  const out = [];
  let sum = 0;
  for (const [weight, place] of heaviest(row)) {
    if (out.length === most || sum >= share * total || weight <= 0) break;
    out.push([weight, place]);
    sum += weight;
  }
  return out;
}

// at most size × size, the largest weight of each block
export function pooled(weights, size) {
  const [rows, columns] = [weights.length, weights[0]?.length ?? 0];
  if (rows <= size && columns <= size) return weights;
  const [down, across] = [Math.min(rows, size), Math.min(columns, size)];
  const out = zeros(down, across);
  weights.forEach((row, i) => row.forEach((weight, j) => {
    const [y, x] = [Math.floor(i * down / rows), Math.floor(j * across / columns)];
    if (weight > out[y][x]) out[y][x] = weight;
  }));
  return out;
}

export const written = (weight) => weight.toFixed(4);
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

export const limited = (place, count) => Math.min(Math.max(place, 0), count - 1);

// the mean of several matrices of one size
export function mean(matrices) {
  const out = zeros(matrices[0].length, matrices[0][0]?.length ?? 0);
  matrices.forEach((one) => one.forEach((row, i) => row.forEach((weight, j) => {
    out[i][j] += weight / matrices.length;
  })));
  return out;
}

// of nested lists layers × heads: those that are chosen, counted from 1, or all of them
export const picked = (layers, layer, head) => {
  const some = (place, list) => (place === MEAN ? list : [list[place - 1]]);
  return some(layer, layers).flatMap((heads) => some(head, heads));
};

// the steps of the arrow keys, down and across
export const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// isolation marks keep a right-to-left name from reordering the text around it
export const quoted = (name) => `“\u2068${name}\u2069”`;
