// Search, keys and colours; without scripts the page is simply whole.
"use strict";
const box = document.getElementById("filter");
const count = document.getElementById("count");
const theme = document.getElementById("theme");
const operations = [...document.querySelectorAll("article.operation")].map((element) => ({
  element,
  link: document.querySelector(`nav li[data-for="${element.id}"]`),
  title: `${element.querySelector("h3").textContent} ${element.querySelector(".line").textContent}`.toLowerCase(),
  text: element.textContent.toLowerCase(),
}));
for (const hidden of document.querySelectorAll("nav .filter, nav .keys, #theme")) hidden.hidden = false;

// Operations whose text holds every word; where titles hold them all, those alone.
function narrow() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (text) => words.every((word) => text.includes(word));
  const by_title = operations.some(({ title }) => holds(title));
  let shown = 0;
  for (const { element, link, title, text } of operations) {
    const fits = holds(by_title ? title : text);
    element.hidden = !fits;
    link.hidden = !fits;
    shown += fits ? 1 : 0;
  }
  for (const group of document.querySelectorAll("nav .group")) {
    const links = [...group.querySelectorAll("li")];
    group.hidden = links.length > 0 && links.every((link) => link.hidden);
  }
  for (const section of document.querySelectorAll("main section.tag")) {
    const inside = [...section.querySelectorAll("article.operation")];
    section.hidden = inside.length > 0 && inside.every((element) => element.hidden);
  }
  for (const schema of document.querySelectorAll("details.schema")) {
    schema.hidden = !holds(schema.textContent.toLowerCase());
  }
  for (const element of document.querySelectorAll("section.intro, header.top")) element.hidden = words.length > 0;
  count.textContent = words.length > 0 ? `${shown} of ${operations.length} operations` : "";
}

function clear() {
  box.value = "";
  narrow();
}

// A link into a closed part opens it.
function open_target() {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  if (target === null) return;
  for (let element = target; element !== null; element = element.parentElement) {
    if (element instanceof HTMLDetailsElement) element.open = true;
    if (element.hidden) clear();
  }
  target.scrollIntoView();
}

// The operation that is being read, in the list beside it.
let current = null;
function mark(found) {
  if (found === current) return;
  current?.link.removeAttribute("aria-current");
  current = found;
  if (current === null) return;
  current.link.setAttribute("aria-current", "true");
  current.link.scrollIntoView({ block: "nearest" });
}
let is_waiting = false;
document.addEventListener("scroll", () => {
  if (is_waiting) return;
  is_waiting = true;
  requestAnimationFrame(() => {
    is_waiting = false;
    const above = operations.filter(({ element }) => !element.hidden && element.getBoundingClientRect().top < 160);
    mark(above.length > 0 ? above[above.length - 1] : null);
  });
});

function step(by) {
  const shown = operations.filter(({ element }) => !element.hidden);
  const next = shown[Math.min(Math.max(shown.indexOf(current) + by, 0), shown.length - 1)];
  if (next !== undefined) go_to(next);
}

function go_to(operation) {
  location.hash = operation.element.id;
  operation.element.focus({ preventScroll: true });
  mark(operation);
}

const THEMES = ["auto", "light", "dark"];
function wear(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  theme.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[name];
  theme.setAttribute("aria-label", `Colours: ${name}; press for the next`);
}
// A browser may keep nothing for us.
function remembered() {
  try {
    return THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  } catch {
    return "auto";
  }
}
function next_theme() {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  wear(next);
  try {
    localStorage.setItem("theme", next);
  } catch {
    // Until the page is left.
  }
}
wear(remembered());
theme.addEventListener("click", next_theme);

// Clipboards are for secure pages only; text can be marked anywhere.
if (navigator.clipboard !== undefined) {
  for (const sample of document.querySelectorAll(".sample")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(sample.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    sample.querySelector("figcaption").append(button);
  }
}

box.addEventListener("input", narrow);
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    clear();
    box.blur();
  }
  if (event.key === "Enter") {
    const first = operations.find(({ element }) => !element.hidden);
    if (first !== undefined) go_to(first);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = { "/": () => box.focus(), j: () => step(1), k: () => step(-1), t: next_theme }[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});
window.addEventListener("hashchange", open_target);
open_target();
