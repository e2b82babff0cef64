// Colours for Python code. Pure functions. Unknown syntax stays plain.

const TOKENS =
  /(#[^\n]*)|((?:[rbfuRBFU]{1,2})?(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\b\d[\w.]*)|([^\W\d]\w*)/gu;
const KEYWORDS = new Set(
  (
    "False None True and as assert async await break case class continue def del elif else except finally for from" +
    " global if import in is lambda match nonlocal not or pass raise return try while with yield"
  ).split(" "),
);

/**
 * Return the lines of a source, each as pieces `[class, text]`.
 * @param {string} source
 * @returns {[string, string][][]}
 */
export function coloured(source) {
  /** @type {[string, string][][]} */
  const lines = [[]];
  const add = (kind, text) => {
    const [first, ...others] = text.split("\n");
    if (first) lines[lines.length - 1].push([kind, first]);
    for (const other of others) lines.push(other ? [[kind, other]] : []);
  };
  let done = 0;
  let before = "";
  for (const found of source.matchAll(TOKENS)) {
    const [text, comment, string, digits, word] = found;
    add("", source.slice(done, found.index));
    const name = before === "def" || before === "class" ? "fn" : "";
    add(comment ? "com" : string ? "str" : digits ? "num" : KEYWORDS.has(word) ? "kw" : name, text);
    before = word ?? "";
    done = found.index + text.length;
  }
  add("", source.slice(done));
  if (!lines.at(-1)?.length) lines.pop();
  return lines;
}
