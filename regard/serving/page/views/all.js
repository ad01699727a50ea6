// The views, in the order of the navigation. `suits` returns whether a view has anything to show. A view
// that `isNamedByTask` is called by what the chosen run does: Translate, Tag, Fill in, Caption.

import { Answer } from "./answer.js";
import { Atlas } from "./atlas.js";
import { Captions } from "./captions.js";
import { Compare } from "./compare.js";
import { Course } from "./course.js";
import { Gold } from "./gold.js";
import { Mechanisms } from "./mechanisms.js";
import { Training } from "./training.js";
import { Worked } from "./worked.js";

const reads = (kind) => ({ runs }) => runs.some((run) => run.reads === kind);

export const VIEWS = [
  { name: "answer", title: "Answer", isNamedByTask: true, reads: "texts", View: Answer, suits: reads("texts"),
    lead: "What the model looked at while it answered." },
  { name: "worked", title: "Worked example", View: Worked, suits: () => true,
    lead: "Attention in numbers small enough to follow. Change any of them." },
  { name: "mechanisms", title: "Mechanisms", reads: "texts", View: Mechanisms, suits: reads("texts"),
    lead: "What other mechanisms make of the same queries and keys." },
  { name: "captions", title: "Captions", isNamedByTask: true, reads: "pictures", View: Captions,
    suits: (served) => served.captions.length > 0 || reads("pictures")(served),
    lead: "What each word of a caption looked at." },
  { name: "atlas", title: "Atlas", reads: "texts", View: Atlas,
    suits: (served) => served.records.length > 0 || reads("texts")(served),
    lead: "The map of a text of any length: scroll to zoom, drag to move." },
  { name: "gold", title: "Gold alignments", reads: "texts", View: Gold,
    suits: (served) => served.has_gold && reads("texts")(served),
    lead: "Which head aligns words as people do." },
  { name: "compare", title: "Compare", reads: "texts", View: Compare, suits: reads("texts"), choosesRuns: true,
    lead: "Two runs, or two answers of one run, on the same text." },
  { name: "training", title: "Training", View: Training, suits: ({ runs }) => runs.length > 0,
    lead: "How the run learned." },
  { name: "course", title: "Course", View: Course, suits: () => true,
    lead: "Ten short chapters on attention; run their code and see what it prints and draws." },
];
