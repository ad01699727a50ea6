// The formula of each step, as MathML, which browsers draw by themselves. All of it is written here;
// no text from users or the server is inserted.

import { html } from "../drawing/vendor/preact.js";

const i = (name) => `<mi>${name}</mi>`;
const o = (sign) => `<mo>${sign}</mo>`;
const sub = (name, index) => `<msub>${i(name)}${i(index)}</msub>`;
const top = (name, ...above) => `<msup>${i(name)}<mrow>${above.join("")}</mrow></msup>`;
const shifted = top("e", sub("S", "ij"), o("−"), sub("m", "i"));
const QK = i("Q") + top("K", o("⊤"));

const FORMULAS = {
  Q: i("Q") + o("=") + i("X") + sub("W", "Q"),
  K: i("K") + o("=") + i("Y") + sub("W", "K"),
  V: i("V") + o("=") + i("Y") + sub("W", "V"),
  products: QK,
  scores: `${i("S")}${o("=")}${QK}${o("/")}${o("(")}<msqrt>${i("d")}</msqrt>${o("·")}${i("T")}${o(")")}`,
  max: sub("m", "i") + o("=") + i("max") + sub("S", "i"),
  exp: shifted,
  sum: o("∑") + shifted,
  weights: i("A") + o("=") + i("softmax") + o("(") + i("S") + o(")"),
  context: i("C") + o("=") + i("A") + i("V"),
  joined: o("[") + sub("C", "1") + o("…") + sub("C", "h") + o("]"),
  out: o("[") + i("C") + o("]") + sub("W", "O"),
};

export function Formula({ stage, isScaled = true, isCross = false }) {
  const formula = stage === "scores" && !isScaled
    ? i("S") + o("=") + QK + o("/") + i("T") : FORMULAS[stage];
  if (!formula) return null;
  const shown = isCross ? formula : formula.replace(i("Y"), i("X"));
  return html`<span class="formula" dangerouslySetInnerHTML=${{ __html: `<math>${shown}</math>` }} />`;
}
