"use strict";
(() => {
  // The state of the page is its address' fragment: paper, algorithm, verdict, kind, q, row, plot, theme.
  const find = (id) => document.getElementById(id);
  const form = find("filters");
  const dialog = find("large");
  const fields = ["paper", "algorithm", "verdict", "kind", "q"];
  const figures = [...document.querySelectorAll("figure")];
  const rows = [...document.querySelectorAll("tr[data-verdict]")].map((row) => {
    const section = row.closest(".experiment");
    const heading = section.querySelector("h2").textContent + " " + section.id + " " + section.dataset.paper;
    const text = (heading + " " + row.textContent + " " + row.dataset.algorithms).toLowerCase().replace(/\s+/g, " ");
    return { row, section, text, algorithms: row.dataset.algorithms.split(" ") };
  });
  let open = null;

  const read = () => new URLSearchParams(location.hash.slice(1));

  function write(change, isStep) {
    const state = read();
    for (const [name, value] of Object.entries(change)) {
      if (value) state.set(name, value);
      else state.delete(name);
    }
    const hash = state.toString();
    const address = hash ? "#" + hash : location.pathname + location.search;
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    show();
  }

  function filter(state) {
    const [paper, algorithm, verdict, kind] = fields.map((name) => state.get(name) || "");
    const words = (state.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    const visible = new Set();
    let count = 0;
    for (const { row, section, text, algorithms } of rows) {
      const fits =
        (!paper || section.dataset.paper === paper) &&
        (!algorithm || algorithms.includes(algorithm)) &&
        (!verdict || row.dataset.verdict === verdict) &&
        (!kind || row.dataset.kind === kind) &&
        words.every((word) => text.includes(word));
      row.hidden = !fits;
      if (fits) {
        count += 1;
        visible.add(section);
      }
    }
    const isAll = count === rows.length;
    for (const section of document.querySelectorAll(".experiment")) {
      section.hidden = !isAll && !visible.has(section);
    }
    find("shown").textContent = count + " of " + rows.length + " rows";
  }

  function fill(state) {
    for (const name of fields) {
      const field = form.elements[name];
      const value = state.get(name) || "";
      if (field.value !== value) field.value = value;
    }
  }

  function enlarge(name) {
    const figure = name && figures.find((figure) => figure.id === "plot=" + name);
    if (open && open !== figure) {
      const picture = find("large-picture").firstElementChild;
      if (picture) open.firstElementChild.append(picture);
      open = null;
    }
    if (!figure) {
      if (dialog.open) dialog.close();
      return;
    }
    if (open !== figure) {
      // Moved, and not copied: names within a page are there once.
      find("large-picture").append(figure.querySelector("svg"));
      open = figure;
    }
    if (!dialog.open) dialog.showModal();
  }

  function paint(state) {
    const theme = state.get("theme");
    const isChosen = theme === "dark" || theme === "light";
    if (isChosen) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const isDark = isChosen ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    find("theme").textContent = isDark ? "Light" : "Dark";
    return isDark;
  }

  // The row that a link leads to.
  let chosen = null;

  function choose(name) {
    const row = name && find("row=" + name);
    if (row === chosen) return;
    if (chosen) chosen.classList.remove("chosen");
    chosen = row;
    if (!row) return;
    row.classList.add("chosen");
    row.scrollIntoView({ block: "center" });
  }

  function show() {
    const state = read();
    paint(state);
    fill(state);
    filter(state);
    choose(state.get("row"));
    enlarge(state.get("plot"));
  }

  function step(by) {
    const shown = figures.filter((figure) => !figure.closest(".experiment").hidden);
    const next = shown[(shown.indexOf(open) + by + shown.length) % shown.length];
    if (next) write({ plot: next.id.slice("plot=".length) });
  }

  form.addEventListener("input", (event) => write({ [event.target.name]: event.target.value.trim() && event.target.value }));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    write({ paper: "", algorithm: "", verdict: "", kind: "", q: "", row: "" });
  });
  find("theme").addEventListener("click", () => write({ theme: paint(read()) ? "light" : "dark" }));
  find("close").addEventListener("click", () => write({ plot: "" }));
  find("previous").addEventListener("click", () => step(-1));
  find("next").addEventListener("click", () => step(1));
  // Esc closes it by itself; the event comes later, when another may be open.
  dialog.addEventListener("close", () => !dialog.open && read().has("plot") && write({ plot: "" }));
  dialog.addEventListener("click", (event) => event.target === dialog && write({ plot: "" }));
  for (const link of document.querySelectorAll("a[href^='#']")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const state = Object.fromEntries(new URLSearchParams(link.getAttribute("href").slice(1)));
      const isPicture = link.classList.contains("picture");
      const others = isPicture ? {} : { paper: "", algorithm: "", verdict: "", kind: "", q: "", row: "" };
      choose(null);
      write({ ...others, ...state }, true);
      if (!isPicture && !chosen) form.scrollIntoView();
    });
  }
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, select, textarea");
    if (event.key === "/" && !isTyping && !dialog.open) {
      event.preventDefault();
      form.elements.q.focus();
    } else if (dialog.open && event.key === "ArrowLeft") step(-1);
    else if (dialog.open && event.key === "ArrowRight") step(1);
  });
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  form.hidden = false;
  find("theme").hidden = false;
  show();
})();
