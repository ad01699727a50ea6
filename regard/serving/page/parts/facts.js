// The server's facts about a run.

import { get } from "./server.js";
import { useAnswer } from "./state.js";

// while the facts of a new run are loading, those of the previous run are not shown
export function useFacts(run) {
  const { value, error, isBusy } = useAnswer(() => run && get(["runs", run, "info"]), [run]);
  return { info: value?.name === run ? value : null, error, isBusy };
}
