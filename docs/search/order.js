// How the site's search orders what it has found: pages for authors and operators before those for people who
// change triobot. The numbers are Sphinx's own; `conf.py` names this file.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: function (found) {
    var page = found[0];
    var inside = /^(project|decisions|api)\/|^(architecture|glossary|hot-path|ledger|pages|risks|speed|stack)$/;
    return inside.test(page) ? found[4] - 4 : found[4];
  },
};
