// The path of a turn: the lines that ran in the turn. A pass is traced at the first request for a path.

import { tried } from "../sheet.js";
import { byNumber, pathsOf } from "./passes.js";

/** @typedef {[number, number]} Line a source's number, and the line's */

/** The lines that ran in the shown turn, while the path is switched on. @param {() => void} draw */
export function turnPath(draw) {
  let isOn = false;
  let of = "";
  /** By turn; empty until it is here. @type {Map<number, Line[]>} */
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
    /** Its lines in a source; none while they are read. @param {any} pass @param {number} turn @param {number} source */
    lines(pass, turn, source) {
      if (!isOn) return [];
      if (of !== pass.id) known.clear();
      of = pass.id;
      if (!known.has(turn)) read(pass, turn);
      return (known.get(turn) ?? []).filter((one) => one[0] === source).map(([, line]) => line);
    },
    /** Its lines in the other sources. @param {number} turn @param {number} source */
    elsewhere(turn, source) {
      /** @type {Map<number, number[]>} */
      const found = new Map();
      for (const [of, line] of isOn ? (known.get(turn) ?? []) : [])
        if (of !== source) found.set(of, [...(found.get(of) ?? []), line]);
      return [...found];
    },
  };
}

/** Lines as ranges: 8, 12–14. @param {number[]} lines @returns {string} */
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
