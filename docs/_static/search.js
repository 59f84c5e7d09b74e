/* How pages are ranked: Sphinx finds pages in which all words occur, and ranks them by one of the words alone. Here a
   page has the weight of all its words, of rare ones more, and of those in its title, its headings and its synonyms
   (`[words]` of docs/navigation.toml). Guides come before the reference. Below a title is the paragraph of the page that
   has most of the words: a site that is opened from a folder cannot fetch its pages. */
"use strict";

{
  const WEIGHTS = { text: 1, heading: 2, synonym: 4, title: 6 };
  const PHRASE = 12; // the whole question is a synonym or a heading
  const OBJECT = 20; // the question is the name of a function, a class or a method
  const KINDS = { operators: 0.4, api: 0.4, changelog: 0.2, architecture: 0.3, contributing: 0.6 };

  const files = (terms, word) => (Object.hasOwn(terms, word) ? [terms[word]].flat() : []);
  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

  const rank = (query, searchTerms, excludedTerms) => {
    const { alltitles, docnames, filenames, objects, terms, titles, titleterms } = Search._index;
    const stemmer = new Stemmer();
    const stems = (text) => splitQuery(text.toLowerCase()).map((word) => stemmer.stemWord(word));
    const synonyms = docnames.map((name) => window.costcoreWords[name] || []);
    const asked = plain(query);

    /* The documents with a word; of a word that nobody wrote, those with words that begin with it. */
    const found = (table, word) => {
      const exact = files(table, word);
      if (exact.length || word.length < 3) return exact;
      return Object.keys(table).filter((term) => term.startsWith(word)).flatMap((term) => files(table, term));
    };
    const titleWords = titles.map((title) => new Set(stems(title)));
    const synonymWords = synonyms.map((phrases) => new Set(phrases.flatMap(stems)));

    const scores = docnames.map(() => 0);
    for (const word of searchTerms) {
      const inText = new Set(found(terms, word)), inHeadings = new Set(found(titleterms, word));
      const holds = docnames.map((_, doc) => ({
        text: inText.has(doc) || inHeadings.has(doc),
        heading: inHeadings.has(doc),
        synonym: synonymWords[doc].has(word),
        title: titleWords[doc].has(word),
      }));
      const rarity = Math.log(1 + docnames.length / Math.max(1, holds.filter((each) => each.text).length));
      holds.forEach((each, doc) => {
        for (const [place, weight] of Object.entries(WEIGHTS)) if (each[place]) scores[doc] += weight * rarity;
      });
    }
    synonyms.forEach((phrases, doc) => {
      const nearest = phrases.map(plain).filter((phrase) => asked.includes(phrase) || phrase.includes(asked));
      if (nearest.length) scores[doc] += PHRASE;
    });
    const excluded = new Set([...excludedTerms].flatMap((word) => files(terms, word)));

    /* The heading of a page that has most of the words. */
    const headings = docnames.map(() => [0, null, ""]);
    for (const [title, places] of Object.entries(alltitles)) {
      const words = new Set(stems(title)), shared = [...searchTerms].filter((word) => words.has(word)).length;
      for (const [doc, id] of shared ? places : []) {
        if (plain(title) === asked) scores[doc] += PHRASE;
        if (shared > headings[doc][0]) headings[doc] = [shared, id, title];
      }
    }
    const excerpt = (doc) => {
      const shared = (text) => { const words = new Set(stems(text)); return [...searchTerms].filter((each) => words.has(each)).length; };
      const paragraphs = (window.costcoreExcerpts || {})[docnames[doc]] || [];
      const best = Math.max(0, ...paragraphs.map(shared));
      return paragraphs.find((text) => shared(text) === best) || null;
    };
    const results = [];
    scores.forEach((score, doc) => {
      if (!score || excluded.has(doc)) return;
      const [, id, heading] = headings[doc], kind = docnames[doc].split("/")[0];
      const title = id === null ? titles[doc] : `${titles[doc]} > ${heading}`;
      const weighted = score * (KINDS[kind] || 1);
      results.push([docnames[doc], title, id === null ? "" : `#${id}`, excerpt(doc), weighted, filenames[doc], "text"]);
    });
    for (const [prefix, entries] of Object.entries(objects)) {
      for (const [doc, , , anchor, name] of Object.values(entries)) {
        if (name.split(".").pop().toLowerCase() !== query.trim().toLowerCase().split(".").pop()) continue;
        const full = prefix ? `${prefix}.${name}` : name;
        const place = anchor === "" || anchor === "-" ? full : anchor;
        results.push([docnames[doc], full, `#${place}`, titles[doc], OBJECT, filenames[doc], "object"]);
      }
    }
    return results.sort((a, b) => a[4] - b[4]); // they are shown from the end
  };
  Search._performSearch = rank;

  /* Sphinx writes the text of a result in parentheses. */
  document.addEventListener("DOMContentLoaded", () => {
    const list = document.getElementById("search-results");
    const strip = () => list.querySelectorAll("li.kind-text > span:not(.excerpt)").forEach((span) => {
      span.className = "excerpt";
      span.textContent = span.textContent.replace(/^ \(|\)$/g, "");
    });
    new MutationObserver(strip).observe(list, { childList: true, subtree: true });
    strip();
  });
}
