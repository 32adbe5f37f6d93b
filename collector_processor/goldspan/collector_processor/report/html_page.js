
"use strict";
const form = document.getElementById("filter");
const text = document.getElementById("text");
const shown = document.getElementById("shown");
const sessions = Array.from(document.querySelectorAll(".session"));
const contents = sessions.map((session) => session.textContent.toLowerCase());

function filter() {
  const label = form.elements.label.value;
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  sessions.forEach((session, index) => {
    const fits = (!label || session.dataset.label === label) && words.every((word) => contents[index].includes(word));
    session.hidden = !fits;
    count += fits;
  });
  shown.textContent = label || words.length ? `${count} of ${sessions.length} shown` : "";
  document.getElementById("nothing-left").hidden = count > 0 || !sessions.length;
}

function openAll(open) {
  for (const session of sessions) if (!session.hidden) session.open = open;
}

form.hidden = !sessions.length;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
document.getElementById("open-all").addEventListener("click", () => openAll(true));
document.getElementById("close-all").addEventListener("click", () => openAll(false));
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search], textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    text.focus();
    text.select();
  } else if (event.key === "Escape" && typing) {
    text.value = "";
    filter();
    text.blur();
  }
});
// A browser may put back what was typed before a reload.
filter();
