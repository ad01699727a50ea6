// What the server knows of a run.

import { get } from "./server.js";
import { useAnswer } from "./state.js";

// while another run's facts are on their way, those of the last are not shown as its own
export function useFacts(run) {
  const { value, error, isBusy } = useAnswer(() => run && get(["runs", run, "info"]), [run]);
  return { info: value?.name === run ? value : null, error, isBusy };
}
