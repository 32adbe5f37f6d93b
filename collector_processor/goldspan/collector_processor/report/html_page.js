
"use strict";
// The filters by label and mistake work by style alone; this adds the search, the count, and opens what is found.
const form = document.getElementById("filter");
const text = document.getElementById("text");
const shown = document.getElementById("shown");
const sessions = Array.from(document.querySelectorAll(".session"));
const groups = Array.from(document.querySelectorAll(".group"));
const parts = Array.from(document.querySelectorAll(".part"));
const contents = sessions.map((session) => session.textContent.toLowerCase());

function chosen(name) {
  return form?.elements[name] ? form.elements[name].value : "";
}

function filter() {
  const label = chosen("label");
  const mistake = chosen("mistake");
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  sessions.forEach((session, index) => {
    const fits =
      (!label || session.classList.contains(label)) &&
      (!mistake || session.classList.contains(mistake)) &&
      words.every((word) => contents[index].includes(word));
    session.hidden = !fits;
    count += fits;
  });
  for (const one of [...groups, ...parts]) one.hidden = !one.querySelector(".session:not([hidden])");
  if (mistake || words.length) for (const group of groups) group.open = true;
  shown.textContent = label || mistake || words.length ? `${count} of ${sessions.length} shown` : "";
  document.getElementById("nothing-left").hidden = count > 0;
}

function openAll(open) {
  for (const one of [...sessions, ...groups]) if (!one.hidden) one.open = open;
}

if (form) {
  for (const one of form.querySelectorAll("[hidden]")) one.hidden = false;
  document.addEventListener("input", filter);
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
  // A browser may put back what was chosen or typed before a reload.
  filter();
}
