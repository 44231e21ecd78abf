// Calls of the REST API. The token lives as long as the tab, and is sent in a header only.

const KEY = "canal-group-token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, body) {
    super([body.message, body.hint].filter(Boolean).join(" "));
    this.status = status;
  }
}

// Returns the JSON answer; throws Refused with the service's sentence, or with one of ours if there is no answer.
export async function call(method, path, body) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`api/${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(60_000),
    });
  } catch {
    throw new Refused(0, { message: "The server does not answer.", hint: "The page goes on when it does." });
  }
  const said = await answer.json().catch(() => ({ message: `The server answered with status ${answer.status}.` }));
  if (!answer.ok) throw new Refused(answer.status, said);
  return said;
}
