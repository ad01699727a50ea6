// Requests to the server. Errors of the server are thrown as an Error with its message.

const address = (parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;

async function checked(answer) {
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  throw new Error(said?.error?.message ?? `the server answered ${answer.status}`);
}

async function fetched(where, how) {
  let answer;
  try {
    answer = await fetch(where, how);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Start it again with regard serve.");
  }
  return checked(answer);
}

export async function get(parts, query = {}, signal = undefined) {
  const asked = new URLSearchParams(query).toString();
  return (await fetched(address(parts) + (asked && `?${asked}`), { signal })).json();
}

export async function post(parts, body) {
  const headers = { "content-type": "application/json" };
  return (await fetched(address(parts), { method: "POST", headers, body: JSON.stringify(body) }))
    .json();
}

export async function send(parts, file) {
  return (await fetched(address(parts), { method: "POST", body: file })).json();
}

// Arrays are sent as raw float32; a header holds their shape.
export async function numbers(parts, query = {}) {
  const answer = await fetched(`${address(parts)}?${new URLSearchParams(query)}`);
  const shape = answer.headers.get("x-shape").split(",").map(Number);
  return { shape, flat: new Float32Array(await answer.arrayBuffer()) };
}

export async function octets(parts, query, signal) {
  const answer = await fetched(`${address(parts)}?${new URLSearchParams(query)}`, { signal });
  return { headers: answer.headers, status: answer.status, content: await answer.arrayBuffer() };
}

export const picture = (record) => address(["captions", record, "picture"]);

export const figure = (record, kind, format, query) =>
  `${address(["records", record, "figure", `${kind}.${format}`])}?${new URLSearchParams(query)}`;
