// The state of the page, kept in its address, so that a link shows the same.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../drawing/vendor/preact.js";

// A document is too long for an address, which holds a key instead; this tab keeps the text.
const LONGEST = 2000, KEYS = new Map();
// what views were called in links of former releases
const FORMER = { translate: "answer" };

function keyOf(text) {
  if (!KEYS.has(text)) {
    let sum = 0;
    for (let i = 0; i < text.length; i += 1) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) >>> 0;
    KEYS.set(text, `document-${sum.toString(16)}-${text.length}`);
    try { sessionStorage.setItem(KEYS.get(text), text); } catch { /* known until the page is left */ }
  }
  return KEYS.get(text);
}

// undefined for a document of another tab; the page then shows its first example
function textAt(key) {
  if (!/^document-[0-9a-f]+-\d+$/.test(key)) return key;
  for (const [text, its] of KEYS) if (its === key) return text;
  try { return sessionStorage.getItem(key) ?? undefined; } catch { return undefined; }
}

function readAddress(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const said = [...new URLSearchParams(query)].map(([name, value]) => [name, textAt(value)]);
  return { view: FORMER[path] ?? path, params: Object.fromEntries(said) };
}

export function addressOf(view, params) {
  const kept = Object.entries(params).filter(([, value]) => value !== "" && value != null)
    .map(([name, value]) => [name, String(value).length > LONGEST ? keyOf(value) : value]);
  const query = new URLSearchParams(kept).toString();
  return `#/${view}${query && `?${query}`}`;
}

/** A place that an address counts from 1, counted from 0; `otherwise` replaces a text that is not a number. */
export const placeOf = (said, otherwise = 1) => Math.max(Math.trunc(Number(said) || otherwise), 1) - 1;

export function useAddress(first) {
  const [address, setAddress] = useState(() => readAddress());
  // before the page is painted: an address that changes until then is heard too
  useLayoutEffect(() => {
    const moved = () => setAddress(readAddress());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const here = { view: address.view || first, params: address.params };
  const change = useCallback((wish) => {
    const now = readAddress();
    const params = { ...now.params, ...wish };
    history.replaceState(null, "", addressOf(now.view || first, params));
    setAddress({ view: now.view || first, params });
  }, [first]);
  return { ...here, change };
}

// value, error and progress of the latest promise; results of older promises are ignored
export function useAnswer(ask, needs) {
  const [answer, setAnswer] = useState({ value: null, error: null, isBusy: false });
  const latest = useRef(0);
  useEffect(() => {
    latest.current += 1;
    const mine = latest.current, running = ask();
    if (!running) { setAnswer({ value: null, error: null, isBusy: false }); return; }
    setAnswer((last) => ({ ...last, error: null, isBusy: true }));
    running.then(
      (value) => mine === latest.current && setAnswer({ value, error: null, isBusy: false }),
      (error) => mine === latest.current && error.name !== "AbortError"
        && setAnswer({ value: null, error: error.message, isBusy: false }));
  }, needs);
  return answer;
}

// a value kept in localStorage, where the browser allows it
export function useKept(name, first) {
  const [value, setValue] = useState(() => {
    try { return localStorage.getItem(name) ?? first; } catch { return first; }
  });
  return [value, (next) => {
    setValue(next);
    try { localStorage.setItem(name, next); } catch { /* kept for now only */ }
  }];
}
