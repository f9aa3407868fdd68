// How the search sorts its results. Sphinx's own order puts methods and the glossary above the guide
// that explains the word.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, title, anchor, description, score, filename, kind]) => {
    const stemmer = new Stemmer();
    const asked = new URLSearchParams(location.search).get("q") ?? "";
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
    const stems = words.map((word) => stemmer.stemWord(word));
    const named = stems.length > 0 && stems.every((stem) => title.toLowerCase().includes(stem));
    const guide = /^(quickstart|tutorial|how-to\/|engines\/|guards\/|service\/)/.test(page);
    // An entry of the glossary has up to 100 points: no more than a page with the word in its title.
    if (kind === "index") return Math.min(score, 18);
    if (kind === "object") return score;
    const first = stems.length > 0 && title.toLowerCase().startsWith(stems[0]);
    return score + (named ? 20 : 0) + (named && first ? 5 : 0) + (guide ? 5 : 0);
  },
};
