// The page: asks the REST API once a second and shows what it says. It keeps no state that a reload would lose,
// but the token, which lives as long as the tab.

import { call, Refused, token } from "./api.js";
import { ask } from "./dialog.js";
import { colorOf, draw, short } from "./plot.js";
import { blocked, chosenForPlots, inOrder, matching, summary } from "./shards.js";
import { button, fill, make } from "./table.js";

const EVERY_MS = 1000;
const SPAN_MIN_S = 60;
const SPAN_MAX_S = 300;
const SAMPLES_MAX = 600;
const EVENTS_MAX = 200;
const LOG_LINES = 100;
// shards from which on there is a search
const SEARCHED_FROM = 8;

const at = (id) => document.getElementById(id);
let chosen = decodeURIComponent(location.hash.slice(1));
let operates = false;
let history = { samples: [], events: [] };
let plotted = [];

// ---- small parts ------------------------------------------------------------------------------------------

const clock = (us) => (us ? new Date(us / 1000).toISOString().slice(11, 23) : "–");
const day = (us) => (us ? new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ") : "–");
const seconds = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(value < 10 ? 2 : 0)} s`);

function trouble(error) {
  const shown = at("trouble");
  shown.hidden = !error;
  shown.textContent = error ? error.message : "";
}

// ---- asking before doing ----------------------------------------------------------------------------------

// Asks, calls, and shows what is wrong; `body` makes the body of what was typed.
async function change(title, text, method, path, { label, value, body } = {}) {
  const given = await ask(title, text, { label, value });
  if (given === null) return;
  try {
    await call(method, `instances/${encodeURIComponent(chosen)}${path}`, body ? body(given) : undefined);
    trouble(null);
  } catch (error) {
    trouble(error);
    await ask("Not done", error.message);
  }
  await look();
}

// A token that the server does not know is not kept: what could be seen before is still seen.
async function login(refused = "") {
  const text = `${refused} The token stays in this tab and is sent to this server only.`.trim();
  const given = await ask("Log in", text, { label: "Token", secret: true });
  if (given === null) return;
  const before = token.get();
  token.set(given.trim());
  try {
    await call("GET", "instances");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    token.set(before);
    await login(error.message);
    return;
  }
  chosen = "";
  history = { samples: [], events: [] };
  await look();
}

// ---- what is shown ----------------------------------------------------------------------------------------

function showInstances(instances) {
  const links = instances.map((one) => {
    const link = make("a", { href: `#${encodeURIComponent(one.destination)}`, textContent: one.destination });
    if (one.destination === chosen) link.setAttribute("aria-current", "page");
    return link;
  });
  const nav = at("instances");
  if (nav.textContent !== links.map((link) => link.textContent).join("") || !nav.querySelector("[aria-current]")) {
    nav.replaceChildren(...links);
  }
}

function showGroup(state, one) {
  const group = state.group;
  at("instance-title").textContent = state.destination;
  const role = at("role");
  role.className = `badge ${group.active ? "good" : "bad"}`;
  role.textContent = group.active
    ? `active on ${group.server}`
    : group.stopped
      ? `stopped: ${group.stopped}`
      : one.active_server
        ? `standing by; ${one.active_server} is active`
        : group.error ?? "not served";
  at("held").textContent = group.held_by ? `Held by shard ${group.held_by} for ${seconds(group.held_since_s)}: ${group.held_why}.` : "";
  showBlocked(group.full_rings ?? []);
  const sent = state.gateway.counters;
  const facts = [
    ["Gateway", state.gateway.error ?? one.uri],
    ["Epoch", group.epoch ?? "–"],
    ["Rewinds in it", group.generation ?? "–"],
    ["Watermark, UTC", clock(group.watermark_us)],
    ["Late transactions", group.late ?? "–"],
    ["Waiting to be merged", group.headers_pending ?? "–"],
    ["Not acknowledged", group.headers_kept ?? "–"],
    ["Rows sent", sent ? short(sent.sent_rows) : "–"],
  ];
  const shown = at("facts");
  if (shown.children.length !== facts.length) {
    shown.replaceChildren(...facts.map(([name]) => make("div", {}, make("dt", { textContent: name }), make("dd"))));
  }
  facts.forEach(([, value], index) => {
    const cell = shown.children[index].lastChild;
    if (cell.textContent !== String(value)) cell.textContent = value;
  });
  showServers(group);
  const actions = at("instance-actions");
  const wanted = `${Boolean(group.stopped)} ${operates}`;
  if (actions.dataset.shows !== wanted) {
    actions.dataset.shows = wanted;
    actions.replaceChildren(
      group.stopped
        ? button("Start", () => change("Start", `Let ${chosen} be served again?`, "POST", "/start"), operates)
        : button("Stop", () =>
            change("Stop", `Take ${chosen} out of service on every server, until it is started?`, "POST", "/stop", {
              label: "Reason",
              value: "maintenance",
              body: (reason) => ({ reason }),
            }),
            operates,
          ),
    );
  }
}

function showBlocked(fullRings) {
  const waits = blocked(fullRings);
  const shown = at("blocked");
  shown.hidden = !waits.length;
  if (shown.dataset.shows === JSON.stringify(waits)) return;
  shown.dataset.shows = JSON.stringify(waits);
  shown.replaceChildren(
    ...waits.flatMap(({ why, commands }) => [
      make("p", { textContent: why }),
      ...commands.map((command) => make("p", {}, make("code", { textContent: command }))),
    ]),
  );
}

function showServers(group) {
  const lines = (group.servers ?? []).map(
    (one) => `${one.server} ${one.active ? "is active" : "stands by"} since ${day(one.since_us)} UTC`,
  );
  const shown = at("servers");
  if (shown.dataset.shows === lines.join("\n")) return;
  shown.dataset.shows = lines.join("\n");
  shown.replaceChildren(...lines.map((textContent) => make("li", { textContent })));
}

function showShards(state) {
  const merged = new Map((state.group.shards ?? []).map((shard) => [shard.shard, shard]));
  const last = history.samples.at(-1)?.shards ?? {};
  const rows = matching(inOrder(state), at("shards-search").value).map((shard) => {
    const name = shard.shard;
    const group = merged.get(name) ?? {};
    const path = `/shards/${encodeURIComponent(name)}`;
    const give = (policy, text) => [
      policy,
      () => change(`${policy} ${name}`, text, "POST", `${path}/${policy}`),
    ];
    const words = [...shard.words, shard.reading ?? ""];
    return {
      key: name,
      cells: [
        name,
        words.filter(Boolean).join(", "),
        seconds(last[name]?.lag_s),
        clock(group.frontier_us),
        shard.position ?? "–",
        shard.ring ? ringOf(shard.ring) : "–",
        shard.archive ? archiveOf(shard.archive) : "–",
      ],
      note: shard.error ?? group.error ?? leftOut(state, name),
      actions: [
        ...(group.policy
          ? [give("resume", "Do as the settings say again?")]
          : [
              give("hold", "Let the group wait for this shard, however long it is silent?"),
              give("skip", "Let the group go on without this shard? Its rows may come late."),
            ]),
        [
          "remove",
          () =>
            change(
              `Remove ${name}`,
              "Let this shard leave when what it has committed is acknowledged? Its name cannot be used again. Remove it from the instance file, too.",
              "DELETE",
              path,
            ),
        ],
      ],
    };
  });
  at("shards-count").textContent = summary(state);
  at("shards-search").hidden = state.shards.length <= SEARCHED_FROM;
  fill(at("shards"), ["Shard", "State", "Lag", "Frontier, UTC", "Position", "Ring", "Archive", "Actions"], rows, operates);
}

// How full a ring is, of headers and of bytes, and which of them it is full of.
function ringOf(ring) {
  const of = (used, most, unit) => `${short(used)}${most ? ` of ${short(most)}` : ""} ${unit}`;
  const text = `${of(ring.put - ring.ack, ring.headers_max, "headers")}, ${of(ring.bytes, ring.bytes_max, "B")}`;
  return ring.full ? `full of ${ring.full_of}: ${text}` : text;
}

// Up to where an archive is durable, what it has, and since when its source may have more; or why nothing is written.
function archiveOf(archive) {
  if (archive.error) return `not written: ${archive.error}`;
  const held = `${short(archive.bytes)} B since ${day(archive.oldest_us)}`;
  const behind = archive.behind_s === null ? "" : `, ${seconds(archive.behind_s)} behind`;
  return `${archive.file ? `${archive.file}:${archive.offset}` : "nothing durable"}, ${held}${behind}`;
}

function leftOut(state, shard) {
  const events = (state.group.skipped_events ?? []).filter((event) => event.shard === shard);
  return events
    .map((each) => `left out: the ${each.unit} at ${each.file}:${each.offset}, by ${each.by} at ${day(each.at_us)} UTC`)
    .join("; ");
}

// How far a replay is, as `status` says it.
function replayed(replay) {
  const behind = replay.behind_s === null ? "" : `, ${seconds(replay.behind_s)} behind`;
  const left = replay.left_s === null ? "" : `, about ${seconds(replay.left_s)} left`;
  return `replay: ${replay.state} for ${seconds(replay.since_s)}${behind}${left}`;
}

// The tables that snapshots could not read, as `status` names them.
function unreadOf(unread) {
  const reasons = Object.entries(unread.reasons).map(([table, why]) => `${table}: ${why}`);
  return [unread.words, ...reasons, unread.more].filter(Boolean).join("; ");
}

function showClients(state) {
  const keepers = new Set((state.group.full_rings ?? []).flatMap((full) => full.clients));
  const clients = [...(state.group.clients ?? [])].sort((one, other) => keepers.has(other.client_id) - keepers.has(one.client_id));
  const rows = clients.map((client) => {
    const path = `/clients/${encodeURIComponent(client.client_id)}`;
    const oldest = client.outstanding[0];
    return {
      key: client.client_id,
      cells: [
        client.client_id,
        [client.words.join(", "), client.holder].filter(Boolean).join(": "),
        `${client.outstanding.length} (${client.outstanding.reduce((sum, batch) => sum + batch.rows, 0)} rows)`,
        oldest ? seconds(oldest.age_s) : "–",
        short(client.totals.acked_rows),
        clock(client.cursor_commit_us),
      ],
      note:
        [
          client.error ?? (client.replay ? replayed(client.replay) : ""),
          client.error ? "" : client.snapshot?.words,
          client.unread ? unreadOf(client.unread) : "",
        ]
          .filter(Boolean)
          .join("; "),
      actions: [
        [
          "roll back",
          () => change(`Roll back ${client.client_id}`, "Deliver its outstanding batches again?", "POST", `${path}/rollback`),
        ],
        [
          "rewind",
          () =>
            change(
              `Rewind ${client.client_id}`,
              "Move its cursor? Backwards without an archive, sources are read again and every consumer is rolled back; forwards, what lies between is not delivered.",
              "POST",
              `${path}/rewind`,
              { label: "To: earliest, latest, a time with its zone, or -2h", value: "latest", body: (to) => ({ to }) },
            ),
        ],
        [
          "set aside",
          () =>
            change(
              `Set ${client.client_id} aside`,
              "Hold no rows for this client id any more? Its cursor stays; its next consumer has to say where to continue.",
              "POST",
              `${path}/set-aside`,
            ),
        ],
        [
          "remove",
          () => change(`Remove ${client.client_id}`, "Remove this client id and its cursor?", "DELETE", path),
        ],
      ],
    };
  });
  const head = ["Client id", "Consumer", "Outstanding", "Oldest", "Acknowledged rows", "Cursor, UTC", "Actions"];
  fill(at("clients"), head, rows, operates);
}

function showHistory(state) {
  const { samples, events } = history;
  const all = Object.keys(samples.at(-1)?.shards ?? {});
  plotted = chosenForPlots(state, all, at("shards-search").value, plotted);
  const names = plotted;
  const nowS = (samples.at(-1)?.time_us ?? 0) / 1e6;
  const lags = names.map((name) => samples.map((each) => [each.time_us / 1e6, each.shards[name]?.lag_s ?? null]));
  const rates = names.map((name) =>
    samples.slice(1).map((each, index) => {
      const before = samples[index];
      const [now, then] = [each.shards[name]?.rows ?? null, before.shards[name]?.rows ?? null];
      // A restarted shard begins to count anew: no rate is known there.
      const rate = now === null || then === null || now < then ? null : (now - then) / ((each.time_us - before.time_us) / 1e6);
      return [each.time_us / 1e6, rate];
    }),
  );
  const behind = samples.map((each) => [
    each.time_us / 1e6,
    each.watermark_us ? Math.max(each.time_us - each.watermark_us, 0) / 1e6 : null,
  ]);
  const spanS = Math.min(Math.max(nowS - (samples[0]?.time_us ?? 0) / 1e6, SPAN_MIN_S), SPAN_MAX_S);
  draw(at("plot-lag"), lags, nowS, spanS);
  draw(at("plot-rows"), rates, nowS, spanS);
  draw(at("plot-watermark"), [behind], nowS, spanS);
  const legend = at("legend");
  if (legend.dataset.shows !== `${all.length}\n${names.join("\n")}`) {
    legend.dataset.shows = `${all.length}\n${names.join("\n")}`;
    const others = all.length - names.length;
    legend.replaceChildren(
      ...names.map((name, index) => {
        const mark = make("span", { textContent: "■ " });
        mark.style.color = colorOf(index);
        return make("li", {}, mark, name);
      }),
      ...(others ? [make("li", { className: "quiet", textContent: `${others} others are not drawn: search for them` })] : []),
    );
  }
  const none = make("li", { className: "quiet", textContent: "None since this server started." });
  at("events").replaceChildren(
    ...(events.length ? [] : [none]),
    ...[...events].reverse().map((event) => make("li", {}, make("time", { textContent: clock(event.time_us).slice(0, 8) }), event.what)),
  );
}

// Only while it is open: who may not see all client ids is refused.
async function showLog() {
  if (!at("log").open) return;
  const { lines } = await call("GET", `instances/${encodeURIComponent(chosen)}/log?lines=${LOG_LINES}`);
  at("log-lines").replaceChildren(
    ...lines.reverse().map((line) => {
      const about = ["shard", "client", "epoch"].filter((field) => field in line).map((field) => `${field} ${line[field]}: `);
      const text = make("span", { textContent: `${about.join("")}${line.message}` });
      if (["ERROR", "CRITICAL"].includes(line.level)) text.className = "bad";
      return make("li", {}, make("time", { textContent: line.time.slice(11, 19) }), `${line.level} `, text);
    }),
  );
}

// ---- the loop ---------------------------------------------------------------------------------------------

function merge(news) {
  history.samples = [...history.samples, ...news.samples].slice(-SAMPLES_MAX);
  history.events = [...history.events, ...news.events].slice(-EVENTS_MAX);
}

// Looks follow each other: two at once would take the same samples twice.
let looking = Promise.resolve();

function look() {
  looking = looking.catch(() => {}).then(lookOnce);
  return looking;
}

async function lookOnce() {
  try {
    const instances = await call("GET", "instances");
    if (!instances.some((one) => one.destination === chosen)) {
      chosen = instances[0]?.destination ?? "";
      history = { samples: [], events: [] };
    }
    showInstances(instances);
    const one = instances.find((each) => each.destination === chosen);
    if (!one) return;
    const path = `instances/${encodeURIComponent(chosen)}`;
    const since = history.samples.at(-1)?.time_us ?? 0;
    const [state, news] = await Promise.all([call("GET", path), call("GET", `${path}/history?since_us=${since}`)]);
    if (state.operate !== operates) {
      operates = state.operate;
      at("login").textContent = token.get() ? "Log in again" : "Log in";
    }
    merge(news);
    showGroup(state, one);
    showShards(state);
    showClients(state);
    showHistory(state);
    await showLog();
    trouble(null);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(error);
  }
}

async function run() {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

window.addEventListener("hashchange", () => {
  chosen = decodeURIComponent(location.hash.slice(1));
  history = { samples: [], events: [] };
  look();
});
// What follows # in the address names an instance: the link to the content must not change it.
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("content").focus();
});
at("log").addEventListener("toggle", look);
at("login").addEventListener("click", () => login());
at("shards-search").addEventListener("input", look);
run();
