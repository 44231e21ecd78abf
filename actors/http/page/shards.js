// Shards: which come first, which are searched for, and which of many are drawn.

import { SERIES_MAX } from "./plot.js";

// How bad a shard's state is, the worst first.
const STOPPED = 0;
const HELD = 1;
const FULL = 2;
const APART = 3;
const WELL = 4;
// shards that a sentence names
const NAMED_MAX = 3;

function troubleOf(state, shard, merged) {
  if (shard.error || merged?.error || !["streaming", "finished"].includes(shard.state)) return STOPPED;
  if (state.group.held_by === shard.shard) return HELD;
  if (shard.ring?.full) return FULL;
  return merged?.skipped || merged?.policy ? APART : WELL;
}

function troubles(state) {
  const merged = new Map((state.group.shards ?? []).map((shard) => [shard.shard, shard]));
  return new Map(state.shards.map((shard) => [shard.shard, troubleOf(state, shard, merged.get(shard.shard))]));
}

// The shards of a state: those that somebody must look at come first, else as they are configured.
export function inOrder(state) {
  const trouble = troubles(state);
  return [...state.shards].sort((one, other) => trouble.get(one.shard) - trouble.get(other.shard));
}

// The shards whose name, state, position or error has each word of a search.
export function matching(shards, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (shard) => [shard.shard, ...shard.words, shard.position, shard.error].join(" ").toLowerCase();
  return shards.filter((shard) => words.every((word) => text(shard).includes(word)));
}

// How many there are, and how many of them in which trouble: "64 shards: 1 stopped, 2 with a full ring".
export function summary(state) {
  const counts = [0, 0, 0, 0, 0];
  for (const trouble of troubles(state).values()) counts[trouble] += 1;
  const words = ["not streaming", "waited for", "with a full ring", "set apart by an operator or the settings"];
  const parts = words.map((text, trouble) => (counts[trouble] ? `${counts[trouble]} ${text}` : "")).filter(Boolean);
  const all = `${state.shards.length} shard${state.shards.length === 1 ? "" : "s"}`;
  return parts.length ? `${all}: ${parts.join(", ")}` : all;
}

// Why a stream stands still: a sentence for all shards that wait for the same, and the commands that it ends with.
export function blocked(fullRings) {
  const shards = new Map();
  for (const { shard, why } of fullRings) {
    const reason = why.slice(`${shard} waits: `.length);
    shards.set(reason, [...(shards.get(reason) ?? []), shard]);
  }
  return [...shards].map(([reason, names]) => {
    const [words, ...commands] = reason.split(/; (?=canal-group )/);
    const others = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
    const named = `${names.slice(0, NAMED_MAX).join(", ")}${others}`;
    return { why: `${named} ${names.length === 1 ? "waits" : "wait"}: ${words}`, commands };
  });
}

// The names of the shards that plots draw: at most as many as there are colours. Those that are searched for, then
// those in trouble; one that was drawn stays, so that colours do.
export function chosenForPlots(state, names, search, before) {
  if (names.length <= SERIES_MAX) return names;
  const trouble = troubles(state);
  const there = new Set(names);
  const first = matching(inOrder(state), search).map((shard) => shard.shard).filter((name) => there.has(name));
  const needed = search.trim() ? first : first.filter((name) => trouble.get(name) < WELL);
  const wanted = [...new Set([...needed, ...before.filter((name) => there.has(name) && !search.trim()), ...first])];
  const drawn = new Set(wanted.slice(0, SERIES_MAX));
  const stays = before.filter((name) => drawn.has(name));
  return [...stays, ...[...drawn].filter((name) => !stays.includes(name))];
}
