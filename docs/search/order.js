// How the site's search orders what it has found: pages whose headings have more of the words that were asked for,
// then pages for authors and operators before those for people who change triobot. The numbers are Sphinx's own,
// which takes the best single word of a page; `conf.py` names this file.
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
    var asked = new URLSearchParams(window.location.search).get("q") || "";
    var number = Search._index.docnames.indexOf(page);
    var words = Array.from(Search._parseQuery(asked)[1]).filter(function (word) {
      return [].concat(Search._index.titleterms[word] ?? []).includes(number);
    });
    var inside = /^(project|decisions|api)\/|^(architecture|engine|gaps|glossary|ledger|promises|speed|stack)$/;
    return found[4] + words.length - (inside.test(page) ? 4 : 0);
  },
};
