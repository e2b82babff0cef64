// The path of a turn: the lines that ran in the turn. The first request for a path makes the server trace the pass.

import { tried } from "../sheet.js";
import { byNumber, pathsOf } from "./passes.js";

/** @typedef {[number, number]} Line the numbers of a source and of a line */

/** The switch for the path, and the paths read so far. @param {() => void} draw */
export function turnPath(draw) {
  let isOn = false;
  let of = "";
  /** Paths by turn; an empty path until the answer arrives. @type {Map<number, Line[]>} */
  const known = new Map();

  async function read(pass, turn) {
    known.set(turn, []);
    await tried(async () => {
      const { paths, sources } = await pathsOf(pass, turn, turn + 1);
      byNumber(pass.sources, sources);
      if (of === pass.id) known.set(turn, paths[0] ?? []);
    });
    draw();
  }

  return {
    get isOn() {
      return isOn;
    },
    toggle() {
      isOn = !isOn;
      draw();
    },
    /** Return a turn's lines in a source; an empty list until the answer arrives. @param {any} pass @param {number} turn @param {number} source */
    lines(pass, turn, source) {
      if (!isOn) return [];
      if (of !== pass.id) known.clear();
      of = pass.id;
      if (!known.has(turn)) read(pass, turn);
      return (known.get(turn) ?? []).filter((one) => one[0] === source).map(([, line]) => line);
    },
    /** Return a turn's lines in the other sources. @param {number} turn @param {number} source */
    elsewhere(turn, source) {
      /** @type {Map<number, number[]>} */
      const found = new Map();
      for (const [of, line] of isOn ? (known.get(turn) ?? []) : [])
        if (of !== source) found.set(of, [...(found.get(of) ?? []), line]);
      return [...found];
    },
  };
}

/** Return lines as ranges, such as "8, 12–14". @param {number[]} lines @returns {string} */
export function ranges(lines) {
  /** @type {[number, number][]} */
  const found = [];
  for (const line of [...lines].sort((one, other) => one - other)) {
    const last = found.at(-1);
    if (last && line <= last[1] + 1) last[1] = line;
    else found.push([line, line]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
