// A record of the server: its texts and tokens, and the numbers of what is looked at.

import { wished } from "../drawing/panel.js";
import { get, numbers } from "./server.js";
import { useAnswer } from "./state.js";

// texts and tokens of a record, and the numbers of one kind; the last ones stay until new ones arrive
export function useRecord(name, params) {
  const record = useAnswer(() => name && get(["records", name]), [name]);
  const known = record.value?.record === name ? record.value : null;
  const view = known && wished(params, known);
  const asked = view && JSON.stringify([name, view.kind, view.shown, view.settings]);
  const fetched = useAnswer(() => {
    if (!asked) return null;
    const { kind, shown, quantity, settings } = view;
    return Promise.all([numbers(["records", name, "weights", kind], { shown, ...settings }),
      get(["records", name, "visible", kind], { shown })]).then(([given, seen]) =>
      ({ name, kind, given, visible: seen.layers, shown, quantity, settings }));
  }, [asked]);
  const isFitting = fetched.value?.name === name && fetched.value?.kind === view?.kind
    && fetched.value?.quantity.is_joined === view?.quantity.is_joined;
  return { record: known, numbers: isFitting ? fetched.value : null,
    error: record.error ?? fetched.error, isBusy: record.isBusy || fetched.isBusy };
}
