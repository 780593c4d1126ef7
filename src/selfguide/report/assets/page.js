"use strict";
(() => {
  const root = document.documentElement;
  const PRINTED_WIDTH = 640; // pixels; a sheet of A4 has about 700

  // Tables: numbers highest first, texts from A, the other way round on the second click; empty cells are always last.
  const sortKey = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

  function sort(header) {
    const body = header.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [sortKey(row, header.cellIndex), row]);
    const isNumeric = rows.some(([key]) => typeof key === "number");
    const isEmpty = (key) => (isNumeric ? typeof key !== "number" : key === "");
    const before = header.getAttribute("aria-sort");
    const order = before ? (before === "ascending" ? "descending" : "ascending") : isNumeric ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    rows.sort(([a], [b]) => isEmpty(a) - isEmpty(b) || (isEmpty(a) ? 0 : sign * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
  }
  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => sort(button.parentElement));
  }

  // Charts: drawn when they come into sight, and again when the colours change.
  const plots = [...document.querySelectorAll(".plot")];
  const drawn = new Set();

  function coloured(value, style) {
    if (typeof value === "string") return value.startsWith("var(") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    if (Array.isArray(value)) return value.map((part) => coloured(part, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, coloured(part, style)]));
    }
    return value;
  }

  function draw(plot, width) {
    const { data, layout } = coloured(JSON.parse(plot.nextElementSibling.textContent), getComputedStyle(root));
    const shown = [...plot.parentElement.querySelectorAll(".legend button")].map((key) => key.ariaPressed === "true");
    for (const trace of data) trace.visible = shown[trace.legendgroup] ?? true;
    const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom"; // a finger scrolls the page
    Plotly.react(plot, data, { ...layout, dragmode, width }, { displayModeBar: false, responsive: true });
    drawn.add(plot);
  }

  async function loadLibrary() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  }

  function watch() {
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting && !drawn.has(target)) draw(target);
    }, { rootMargin: "400px" });
    plots.forEach((plot) => observer.observe(plot));
    for (const key of document.querySelectorAll(".legend button")) {
      key.addEventListener("click", () => {
        key.ariaPressed = key.ariaPressed !== "true";
        draw(key.closest("figure").querySelector(".plot"));
      });
    }
    const redraw = () => drawn.forEach((plot) => draw(plot));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => {
      root.classList.add("printing");
      plots.forEach((plot) => draw(plot, PRINTED_WIDTH));
    });
    addEventListener("afterprint", () => {
      root.classList.remove("printing");
      redraw();
    });
  }

  if (plots.length) {
    loadLibrary().then(watch).then(
      () => { root.dataset.charts = "ready"; },
      (error) => {
        root.dataset.charts = "failed";
        for (const plot of plots) plot.textContent = "The chart cannot be drawn here; its data is below.";
        throw error;
      },
    );
  }
})();
