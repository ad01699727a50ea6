// The worked example, step by step, with the same steps as Python's. A number that somebody changed
// stands in the place of what would have been computed; whatever comes after it is computed from it.

const ORDER = ["X", "Y", "W_Q", "W_K", "W_V", "W_O", "Q", "K", "V", "products", "scores", "max",
  "exp", "sum", "weights", "context", "joined", "out"];
const INPUTS = 6;

export const isInput = (stage) => ORDER.indexOf(stage) < INPUTS;

// what a number's place is called in the address: stage, head, row, column
export const nameOf = (stage, head, row, column) => [stage, head, row, column].join(".");

export function edited(edits, name, value) {
  const stage = ORDER.indexOf(name.split(".")[0]);
  const level = Math.max(stage, INPUTS - 1);
  const kept = Object.entries(edits).filter(([other]) => {
    const place = ORDER.indexOf(other.split(".")[0]);
    return place < INPUTS ? true : stage >= INPUTS && place <= level;
  });
  return { ...Object.fromEntries(kept), [name]: value };
}

const times = (left, right) => left.map((row) => right[0].map((_, j) =>
  row.reduce((sum, number, k) => sum + number * right[k][j], 0)));

const transposed = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

export function steps(wish, edits = {}) {
  const placed = (stage, head, rows) => rows.map((row, i) => row.map((number, j) =>
    edits[nameOf(stage, head, i, j)] ?? number));
  const X = placed("X", 0, wish.queries);
  const Y = wish.isCross ? placed("Y", 0, wish.keys) : X;
  const heads = wish.projections.map((given, h) => {
    const W = { W_Q: placed("W_Q", h, given), W_K: placed("W_K", h, given), W_V: placed("W_V", h, given) };
    const Q = placed("Q", h, times(X, W.W_Q)), K = placed("K", h, times(Y, W.W_K));
    const V = placed("V", h, times(Y, W.W_V));
    const products = placed("products", h, times(Q, transposed(K)));
    const divisor = (wish.isScaled ? Math.sqrt(Q[0].length) : 1) * wish.temperature;
    const visible = (i, j) => !wish.isCausal || j <= i;
    const scores = placed("scores", h, products.map((row) => row.map((number) => number / divisor)));
    const max = placed("max", h, scores.map((row, i) =>
      [Math.max(...row.filter((_, j) => visible(i, j)))]));
    const exp = placed("exp", h, scores.map((row, i) => row.map((number, j) =>
      (visible(i, j) ? Math.exp(number - max[i][0]) : 0))));
    const sum = placed("sum", h, exp.map((row) => [row.reduce((a, b) => a + b, 0)]));
    const weights = placed("weights", h, exp.map((row, i) => row.map((number) => number / sum[i][0])));
    const context = placed("context", h, times(weights, V));
    return { ...W, Q, K, V, products, scores, max, exp, sum, weights, context, divisor, visible };
  });
  const joined = placed("joined", 0, X.map((_, i) => heads.flatMap((head) => head.context[i])));
  const W_O = placed("W_O", 0, wish.W_O);
  return { X, Y, heads, joined, W_O, out: placed("out", 0, times(joined, W_O)) };
}

const short = (number) => String(Number(number.toFixed(4)));
const bracketed = (number) => (number < 0 ? `(${short(number)})` : short(number));
const summed = (left, right, result) =>
  `${left.map((number, k) => `${bracketed(number)} · ${bracketed(right[k])}`).join(" + ")} = ${short(result)}`;

// the sum that made a number, with the numbers it was made of
export function told(done, stage, h, i, j) {
  const head = done.heads[h], down = (rows) => rows.map((row) => row[j]);
  const by = {
    Q: () => summed(done.X[i], down(head.W_Q), head.Q[i][j]),
    K: () => summed(done.Y[i], down(head.W_K), head.K[i][j]),
    V: () => summed(done.Y[i], down(head.W_V), head.V[i][j]),
    products: () => summed(head.Q[i], head.K[j], head.products[i][j]),
    scores: () => `${short(head.products[i][j])} / ${short(head.divisor)} = ${short(head.scores[i][j])}`,
    max: () => `the largest of ${head.scores[i].filter((_, k) => head.visible(i, k)).map(short).join(", ")}`,
    exp: () => (head.visible(i, j)
      ? `e^(${short(head.scores[i][j])} − ${bracketed(head.max[i][0])}) = ${short(head.exp[i][j])}`
      : "masked: a word may not see what comes after it"),
    sum: () => `${head.exp[i].map(short).join(" + ")} = ${short(head.sum[i][0])}`,
    weights: () => `${short(head.exp[i][j])} / ${short(head.sum[i][0])} = ${short(head.weights[i][j])}`,
    context: () => summed(head.weights[i], down(head.V), head.context[i][j]),
    joined: () => "the contexts of the heads, side by side",
    out: () => summed(done.joined[i], down(done.W_O), done.out[i][j]),
  };
  return by[stage]?.() ?? "given: change it and see what follows";
}

// the cells that a number is made of
export function sources(stage, i, j) {
  const by = {
    Q: [["X", "row", i], ["W_Q", "column", j]], K: [["Y", "row", i], ["W_K", "column", j]],
    V: [["Y", "row", i], ["W_V", "column", j]], products: [["Q", "row", i], ["K", "row", j]],
    scores: [["products", "cell", i, j]], max: [["scores", "row", i]],
    exp: [["scores", "cell", i, j], ["max", "row", i]], sum: [["exp", "row", i]],
    weights: [["exp", "cell", i, j], ["sum", "row", i]],
    context: [["weights", "row", i], ["V", "column", j]], joined: [["context", "row", i]],
    out: [["joined", "row", i], ["W_O", "column", j]],
  };
  return by[stage] ?? [];
}
