"""``python -m tests.nodes.simulation 100`` runs so many seeds, ``7-7`` one, and tells what was found."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from time import process_time

from tests.nodes.simulation.world import simulate


def main() -> None:
    first, _, last = (sys.argv[1:] or ["20"])[0].partition("-")
    seeds = range(int(first), int(last) + 1) if last else range(int(first))
    logging.disable(logging.CRITICAL if "-v" not in sys.argv else logging.NOTSET)
    if "-v" in sys.argv:
        logging.basicConfig(level=logging.INFO)
    counts, broken, began = Counter[str](), 0, process_time()
    for seed in seeds:
        found = simulate(seed)
        counts.update(found.counts)
        broken += bool(found.broken)
        for what in found.broken:
            print(f"seed {seed}: {what}", flush=True)
    print(f"{len(seeds)} seeds, {broken} broke a promise, {process_time() - began:.1f} s of CPU")
    for what, times in counts.most_common():
        print(f"{times:6} {what}")
    raise SystemExit(bool(broken))


if __name__ == "__main__":
    main()
