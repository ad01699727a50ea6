// The server's facts about a run.

import { get } from "./server.js";
import { useAnswer } from "./state.js";

// while the facts of a new run are loading, those of the previous run are not shown; a run that is still being
// trained has newer facts with each checkpoint
export function useFacts(run) {
  const { name, version } = run ?? {};
  const { value, error, isBusy } = useAnswer(() => name && get(["runs", name, "info"]), [name, version]);
  return { info: value?.name === name ? value : null, error, isBusy };
}
