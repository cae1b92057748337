// What the theme leaves out for readers without a mouse.
"use strict";

// What scrolls by itself gets the focus, so that arrow keys scroll it.
const scrolled = document.querySelectorAll(".rst-content pre > code, .rst-content div.table");
function reach() {
  scrolled.forEach(function (one) {
    if (one.scrollWidth > one.clientWidth) {
      one.tabIndex = 0;
    } else {
      one.removeAttribute("tabindex");
    }
  });
}

// The menu of a narrow window is opened by a button.
function opener() {
  const drawn = document.querySelector("i[data-toggle='wy-nav-top']");
  const button = document.createElement("button");
  button.className = drawn.className;
  button.dataset.toggle = "wy-nav-top";
  button.setAttribute("aria-label", "Menu");
  drawn.replaceWith(button);
}

// The theme marks links and items as open, which only their buttons can be.
function mark() {
  document.querySelectorAll(".wy-menu-vertical :not(button)[aria-expanded]").forEach(function (one) {
    one.removeAttribute("aria-expanded");
  });
  document.querySelectorAll(".wy-menu-vertical button").forEach(function (one) {
    one.setAttribute("aria-expanded", String(one.closest("li").classList.contains("current")));
  });
}

// The theme's footer stands in a section, where it is no landmark, and holds an empty one.
function landmark() {
  const footer = document.querySelector("footer");
  footer.querySelectorAll("[role='contentinfo']").forEach((one) => one.remove());
  footer.setAttribute("role", "contentinfo");
}

window.addEventListener("load", function () {
  opener();
  landmark();
  mark();
  const menu = document.querySelector(".wy-menu-vertical");
  new MutationObserver(mark).observe(menu, { subtree: true, attributeFilter: ["class"] });
  const sizes = new ResizeObserver(reach);
  scrolled.forEach((one) => [one, ...one.children].forEach((part) => sizes.observe(part)));
});
