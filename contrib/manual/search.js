// The search of the manual, in the page itself: a page of a disk (file://) may start no worker and read no
// JSON, but it may load scripts.  index.js has what mkdocs has indexed.
(function () {
  "use strict";
  const field = document.getElementById("mkdocs-search-query");
  const results = document.getElementById("mkdocs-search-results");
  if (!field || !results) {
    return;
  }
  const most = 50;
  let pages = {};
  let index = null;

  function script(name) {
    return new Promise(function (loaded) {
      const element = document.createElement("script");
      element.src = "search/" + name;
      element.onload = loaded;
      document.head.append(element);
    });
  }

  function prepare() {
    pages = Object.fromEntries(manual_index.docs.map((page) => [page.location, page]));
    index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      this.tokenizer.separator = new RegExp(manual_index.config.separator);
      // A page about the words comes before a part of another page.
      manual_index.docs.forEach((page) => this.add(page, { boost: page.location.includes("#") ? 1 : 1.2 }));
    });
  }

  // All words, the last one perhaps not typed to its end.
  function found(text) {
    const words = text.toLowerCase().split(/[\s\-]+/).filter((word) => word.length > 1);
    if (!words.length) {
      return [];
    }
    return index.query(function (query) {
      words.forEach(function (word) {
        query.term(lunr.tokenizer(word), { boost: 10 });
        query.term(lunr.tokenizer(word), { wildcard: lunr.Query.wildcard.TRAILING });
      });
    });
  }

  // Where a word, or the beginning that its other forms share, is in the text; -1: it is in the title only.
  function place(text, word) {
    for (let length = word.length; length >= Math.min(4, word.length); length -= 1) {
      const at = text.indexOf(word.slice(0, length));
      if (at >= 0) {
        return at;
      }
    }
    return -1;
  }

  // Some words of a text around the first that was searched for.
  function part(text, words) {
    const places = words.map((word) => place(text.toLowerCase(), word)).filter((at) => at >= 0);
    const before = places.length ? Math.min(...places) - 60 : 0;
    const begin = before > 0 ? text.indexOf(" ", before) + 1 : 0;
    const rest = text.slice(begin, begin + 240);
    const whole = begin + 240 >= text.length;
    return (begin ? "... " : "") + (whole ? rest : rest.slice(0, rest.lastIndexOf(" ")) + " ...");
  }

  // The first part of a page has the page's title and text: one result is enough.
  function once(all) {
    const locations = new Set(all.map((one) => one.ref));
    return all.filter(function (one) {
      const whole = one.ref.split("#")[0];
      return whole === one.ref || !locations.has(whole) || pages[whole].title !== pages[one.ref].title;
    });
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = once(found(field.value));
    results.replaceChildren();
    if (!all.length) {
      const none = document.createElement("p");
      none.textContent = "Nothing found";
      results.append(none);
    }
    all.slice(0, most).forEach(function (one) {
      const page = pages[one.ref];
      const article = document.createElement("article");
      const link = document.createElement("a");
      link.href = page.location;
      const whole = pages[one.ref.split("#")[0]].title;
      link.textContent = whole === page.title ? whole : whole + ": " + page.title;
      const title = document.createElement("h2");
      title.append(link);
      const text = document.createElement("p");
      text.textContent = part(page.text, words);
      article.append(title, text);
      results.append(article);
    });
  }

  field.value = new URLSearchParams(window.location.search).get("q") || "";
  script("lunr.js").then(() => script("index.js")).then(function () {
    prepare();
    show();
    field.addEventListener("input", show);
  });
})();
