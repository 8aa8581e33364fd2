// Where figures come from: the admin listener that served this page, and nobody else.

const PATIENCE = 2000;
let token = sessionStorage.getItem("token");

/** The server wants a token, or another one. */
export class Unauthorized extends Error {}

/** The server says no; `status` and the message are its own. */
export class Refused extends Error {
  constructor(status, text) {
    super(text.trim() || `status ${status}`);
    this.status = status;
  }
}

/** Whether there is a token, right or wrong. */
export const hasToken = () => token !== null;

/** Takes a token for all further requests, for as long as this tab is open. */
export function useToken(value) {
  token = value;
  sessionStorage.setItem("token", value);
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) throw new Unauthorized((await response.text()).trim());
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response;
}

/** What `GET path?parameters` answers. */
export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return (await ask(query ? `${path}?${query}` : path)).json();
}

/** Purges what `words` name, as `POST /purge` understands them. */
export async function purge(words) {
  const query = new URLSearchParams(words);
  return (await ask(`/purge?${query}`, { method: "POST", headers: { "Larder-Admin": "1" } })).json();
}

/** The JSON of each server-sent event of `path`, until `signal` or the server ends it. */
async function* events(path, signal) {
  const body = (await ask(path, { signal })).body.pipeThrough(new TextDecoderStream());
  let rest = "";
  for await (const piece of body) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length > 0 && !lines.some((line) => line.startsWith("event: "))) yield JSON.parse(data.join("\n"));
    }
  }
}

/**
 * Passes the events of a stream to `see` while the page is visible, and reconnects when the connection breaks.
 * `tell` receives its state: "live", "lost", or "paused"; the returned function pauses and resumes it.
 */
export function follow(path, see, tell = () => {}) {
  let control = null, wanted = true;
  const run = async () => {
    if (control || !wanted || document.hidden) return;
    const mine = (control = new AbortController());
    while (!mine.signal.aborted) {
      try {
        for await (const event of events(path, mine.signal)) {
          tell("live");
          see(event);
        }
      } catch (error) {
        if (mine.signal.aborted) break;
        tell("lost", error);
        if (error instanceof Unauthorized) break;
      }
      await new Promise((wake) => setTimeout(wake, PATIENCE));
    }
    if (control === mine) control = null;
  };
  const stop = () => {
    control?.abort();
    control = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : run()));
  run();
  return (on) => {
    wanted = on;
    tell(on ? "waiting" : "paused");
    if (on) run();
    else stop();
  };
}
