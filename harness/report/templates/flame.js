/* SPDX-License-Identifier: MIT */
for (const graph of document.querySelectorAll("svg.flame")) {
  const frames = [...graph.querySelectorAll(".frame")];
  const widen = (x, w) => {
    for (const frame of frames) {
      const left = (+frame.dataset.x - x) / w, width = +frame.dataset.w / w;
      const from = Math.max(left, 0), to = Math.min(left + width, 1);
      frame.setAttribute("display", to - from > 1e-6 ? "inline" : "none");
      frame.setAttribute("x", `${from * 100}%`);
      frame.setAttribute("width", `${Math.max(to - from, 0) * 100}%`);
    }
  };
  let widest = null;
  const choose = (frame) => {
    widest = frame && frame !== widest ? frame : null;
    widest ? widen(+frame.dataset.x, +frame.dataset.w) : widen(0, 1);
  };
  graph.addEventListener("click", (event) => choose(event.target.closest(".frame")));
  graph.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose(event.target.closest(".frame"));
    if (event.key === "Escape") choose(null);
  });
}
