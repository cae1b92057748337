// Fetches the page again and puts its content in place; what is open, checked or focused stays so.
"use strict";
const note = document.getElementById("refresh");
const failed = document.createElement("p");
failed.className = "banner bad";
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, {cache: "no-store"});
    if (!answer.ok) throw new Error();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    show(fresh);
    failed.remove();
  } catch {
    failed.textContent = "The daemon does not answer. What is shown is old.";
    if (!failed.isConnected) document.getElementById("live").before(failed);
  }
}
function show(fresh) {
  const old = document.getElementById("live"), next = fresh.getElementById("live");
  for (const one of next.querySelectorAll("details[id], input[id]")) {
    const before = document.getElementById(one.id);
    if (before && one.matches("input")) one.checked = before.checked;
    else if (before) one.open = before.open;
  }
  const path = placeOf(document.activeElement, old);
  old.replaceWith(document.adoptNode(next));
  const again = path && path.reduce((at, n) => at && at.children[n], next);
  if (again) again.focus({preventScroll: true});
  note.firstChild.data = fresh.getElementById("refresh").firstChild.data;
}
// Where the focus is inside the content: by id, else the way down to it.
function placeOf(one, top) {
  const path = [];
  if (!one || !top.contains(one)) return null;
  for (let at = one; at !== top; at = at.parentElement)
    path.unshift([...at.parentElement.children].indexOf(at));
  return path;
}
note.append(", refreshed every 10 s");
setInterval(refresh, 10000);
