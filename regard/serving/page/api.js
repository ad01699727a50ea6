// The page of the interface: draws /openapi.json, and sends a trial request.

function made(name, text, ...children) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function resolved(schema, all) {
  const name = schema?.$ref?.split("/").pop();
  return name ? { ...all[name], title: name } : schema ?? {};
}

function typeOf(schema, all) {
  const one = resolved(schema, all);
  if (one.anyOf) return one.anyOf.map((each) => typeOf(each, all)).join(" or ");
  if (one.enum) return one.enum.map((each) => JSON.stringify(each)).join(" or ");
  if (one.type === "array") return `list of ${typeOf(one.items, all)}`;
  return one.title && one.properties ? one.title : one.type ?? "any";
}

function limitsOf(schema) {
  const parts = schema.anyOf ?? [schema];
  const words = {
    minimum: "at least", maximum: "at most", exclusiveMinimum: "above",
    maxItems: "at most, in number", maxLength: "characters at most",
  };
  const found = parts.flatMap((one) =>
    Object.entries(words).filter(([key]) => key in one).map(([key, word]) => `${word} ${one[key]}`));
  if (schema.default !== undefined && schema.default !== null) {
    found.push(`${JSON.stringify(schema.default)} unless given`);
  }
  return found.join(", ");
}

function fields(schema, all) {
  const one = resolved(schema, all);
  const rows = Object.entries(one.properties ?? {}).map(([name, field]) =>
    made("tr", "", made("td", "", made("code", name)), made("td", typeOf(field, all)),
      made("td", [field.description, limitsOf(field)].filter(Boolean).join(" · "))));
  if (!rows.length) return made("p", typeOf(schema, all));
  const head = made("tr", "", ...["field", "type", "meaning"].map((each) => made("th", each)));
  return made("table", "", made("thead", "", head), made("tbody", "", ...rows));
}

function drawRoute(path, verb, route, all) {
  const section = made("section", "", made("h2", `${verb.toUpperCase()} ${path}`),
    made("p", route.description ?? route.summary));
  const body = route.requestBody?.content?.["application/json"]?.schema;
  if (body) section.append(made("h3", "Request"), fields(body, all));
  for (const [status, answer] of Object.entries(route.responses ?? {})) {
    const schema = answer.content?.["application/json"]?.schema;
    const title = `${status}: ${answer.description}`;
    const inside = schema && Object.keys(schema).length ? fields(schema, all) : "";
    section.append(made("details", "", made("summary", title), inside));
  }
  return section;
}

async function draw() {
  const described = await (await fetch("/openapi.json")).json();
  const all = described.components?.schemas ?? {};
  const routes = document.getElementById("routes");
  for (const [path, verbs] of Object.entries(described.paths)) {
    for (const [verb, route] of Object.entries(verbs)) {
      routes.append(drawRoute(path, verb, route, all));
    }
  }
}

async function send(event) {
  event.preventDefault();
  const shown = document.getElementById("answer");
  const answer = await fetch("/v1/predict", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: document.getElementById("body").value,
  });
  const text = await answer.text();
  const isJson = answer.headers.get("Content-Type")?.includes("json");
  shown.textContent = `${answer.status}\n${isJson ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
}

document.getElementById("trial").addEventListener("submit", send);
draw();
