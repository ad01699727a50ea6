// The worked example, step by step, with the same steps as Python's. A number that the reader changed
// replaces the computed one, and all later steps are computed from it.

// inputs, then what follows from them, step by step
const LEVELS = [["X", "Y", "W_Q", "W_K", "W_V", "W_O"], ["Q", "K", "V"], ["products"], ["scores"], ["max"],
  ["exp"], ["sum"], ["weights"], ["context"], ["joined"], ["out"]];
const levelOf = (name) => LEVELS.findIndex((stages) => stages.includes(name.split(".")[0]));

// the inputs of a loaded head are its queries, keys and values
export const isInput = (name, wish) => levelOf(name) <= (wish.given ? 1 : 0);

// the name of a number's place in the address: stage, head, row, column
export const nameOf = (stage, head, row, column) => [stage, head, row, column].join(".");

// drops the edits of later steps, which are computed again
export function edited(edits, name, value) {
  const kept = Object.entries(edits).filter(([other]) => levelOf(other) <= levelOf(name));
  return { ...Object.fromEntries(kept), [name]: value };
}

const times = (left, right) => left.map((row) => right[0].map((_, j) =>
  row.reduce((sum, number, k) => sum + number * right[k][j], 0)));

const transposed = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

export function steps(wish, edits = {}) {
  const placed = (stage, head, rows) => rows.map((row, i) => row.map((number, j) =>
    edits[nameOf(stage, head, i, j)] ?? number));
  const weighed = (h, { Q, K, V }) => {
    const products = placed("products", h, times(Q, transposed(K)));
    const divisor = (wish.isScaled ? wish.given?.divisor ?? Math.sqrt(Q[0].length) : 1) * wish.temperature;
    const visible = (i, j) => !wish.isCausal || j <= i;
    const scores = placed("scores", h, products.map((row) => row.map((number) => number / divisor)));
    const max = placed("max", h, scores.map((row, i) =>
      [Math.max(...row.filter((_, j) => visible(i, j)))]));
    const exp = placed("exp", h, scores.map((row, i) => row.map((number, j) =>
      (visible(i, j) ? Math.exp(number - max[i][0]) : 0))));
    const sum = placed("sum", h, exp.map((row) => [row.reduce((a, b) => a + b, 0)]));
    const weights = placed("weights", h, exp.map((row, i) => row.map((number) => number / sum[i][0])));
    return { products, scores, max, exp, sum, weights, divisor, visible,
      context: placed("context", h, times(weights, V)) };
  };
  if (wish.given) {
    const [Q, K, V] = ["Q", "K", "V"].map((stage) => placed(stage, 0, wish.given[stage]));
    return { heads: [{ Q, K, V, ...weighed(0, { Q, K, V }) }] };
  }
  const X = placed("X", 0, wish.queries), Y = wish.isCross ? placed("Y", 0, wish.keys) : X;
  const heads = wish.projections.map((matrix, h) => {
    const [W_Q, W_K, W_V] = ["W_Q", "W_K", "W_V"].map((stage) => placed(stage, h, matrix));
    const [Q, K, V] = [["Q", X, W_Q], ["K", Y, W_K], ["V", Y, W_V]].map(([stage, inputs, W]) =>
      placed(stage, h, times(inputs, W)));
    return { W_Q, W_K, W_V, Q, K, V, ...weighed(h, { Q, K, V }) };
  });
  const joined = placed("joined", 0, X.map((_, i) => heads.flatMap((head) => head.context[i])));
  const W_O = placed("W_O", 0, wish.W_O);
  return { X, Y, heads, joined, W_O, out: placed("out", 0, times(joined, W_O)) };
}

// the request by which Python computes the same steps
export function askedOf(wish, done) {
  const unit = (size) => [...Array(size).keys()].map((i) => Array.from({ length: size }, (_, j) => Number(i === j)));
  if (!wish.given) {
    return { queries: done.X, keys: done.Y, W_O: done.W_O, is_scaled: wish.isScaled, is_causal: wish.isCausal,
      temperature: wish.temperature, heads: done.heads.map(({ W_Q, W_K, W_V }) => ({ W_Q, W_K, W_V })) };
  }
  // keys and values are joined to rows, and two matrices select one or the other
  const [{ Q, K, V, divisor }] = done.heads, [wide, values] = [K[0].length, V[0].length];
  const picks = (first, size) => unit(wide + values).map((row) => row.slice(first, first + size));
  return { queries: Q, keys: K.map((row, i) => [...row, ...V[i]]), W_O: unit(values), is_scaled: false,
    is_causal: wish.isCausal, temperature: divisor,
    heads: [{ W_Q: unit(wide), W_K: picks(0, wide), W_V: picks(wide, values) }] };
}

// the largest difference between two nested lists of numbers
export const apart = (mine, theirs) => (Array.isArray(mine)
  ? Math.max(0, ...mine.map((one, i) => apart(one, theirs[i]))) : Math.abs(mine - theirs));

const PYTHON = { query: "Q", key: "K", value: "V", products: "products", scores: "scores", weights: "weights",
  context: "context" };

// the largest difference of all steps to Python's
export const difference = (mine, theirs) => Math.max(mine.out ? apart(mine.out, theirs.out) : 0,
  ...theirs.heads.flatMap((head, h) => Object.entries(PYTHON).map(([python, page]) =>
    apart(mine.heads[h][page], head[python]))));

const short = (number) => String(Number(number.toFixed(4)));
const bracketed = (number) => (number < 0 ? `(${short(number)})` : short(number));
const summed = (left, right, result) =>
  `${left.map((number, k) => `${bracketed(number)} · ${bracketed(right[k])}`).join(" + ")} = ${short(result)}`;

// the formula of a number, with the numbers in it
export function told(done, stage, h, i, j) {
  const head = done.heads[h], down = (rows) => rows.map((row) => row[j]);
  const isGiven = !done.X && ["Q", "K", "V"].includes(stage);
  const by = isGiven ? {} : {
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

// the cells from which a number is computed
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
