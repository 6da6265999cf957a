// Requests to the admin interface. The session cookie is sent by the browser; scripts cannot read it.

const HEADERS = { "trilogue-console": "1" };

/** An error response. `code` is that of the admin interface; `status` is 0 if there was no response. */
export class ApiError extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }

  /** Whether the gateway has no such part of the admin interface, or it is off. */
  get missing() {
    return this.status === 404 && this.code === "not_found";
  }
}

let onSignedOut = () => {};

/** Call this when a response says that there is no session. */
export function whenSignedOut(callback) {
  onSignedOut = callback;
}

/** Return the JSON of a GET request. `query`: values by name; empty ones are left out. */
export function get(path, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return ask("GET", text ? `${path}?${text}` : path, undefined, signal);
}

/** Return the JSON of a POST request. */
export function post(path, body = {}, signal = undefined) {
  return ask("POST", path, body, signal);
}

/** Return the JSON of a DELETE request. */
export function remove(path) {
  return ask("DELETE", path);
}

/** Return the text of a GET request, for what is not JSON. */
export async function getText(path, signal = undefined) {
  return (await sent("GET", path, undefined, signal)).text();
}

async function ask(method, path, body, signal) {
  return (await sent(method, path, body, signal)).json();
}

async function sent(method, path, body, signal) {
  let response;
  try {
    response = await fetch(`../${path}`, {
      method,
      signal,
      headers: body === undefined ? HEADERS : { ...HEADERS, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The gateway does not respond.");
  }
  if (response.ok) return response;
  const found = await response.json().then(
    (reply) => reply.error ?? {},
    () => ({}),
  );
  if (response.status === 401 && path !== "console/session") onSignedOut();
  throw new ApiError(
    found.message ?? `The gateway responded with status ${response.status}.`,
    response.status,
    found.code,
  );
}
