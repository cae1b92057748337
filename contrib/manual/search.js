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
      manual_index.docs.forEach((page) => this.add(page));
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

  function part(text, words) {
    const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const begin = Math.max(0, Math.min(...places, text.length) - 60);
    return (begin ? "... " : "") + text.slice(begin, begin + 240);
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = found(field.value);
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
      const title = document.createElement("h3");
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
