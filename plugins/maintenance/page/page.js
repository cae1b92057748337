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
  const place = placeOf(document.activeElement, old);
  old.replaceWith(document.adoptNode(next));
  const again = place && place.path.reduce((at, n) => at && at.children[n], document.getElementById(place.id));
  if (again) again.focus({preventScroll: true});
  note.firstChild.data = fresh.getElementById("refresh").firstChild.data;
}
// Where the focus is inside the content: the way down to it from what is above it and has an id.
function placeOf(one, top) {
  if (!one || !top.contains(one)) return null;
  const path = [];
  let at = one;
  for (; !at.id; at = at.parentElement) path.unshift([...at.parentElement.children].indexOf(at));
  return {id: at.id, path};
}
note.append(", refreshed every 10 s");
setInterval(refresh, 10000);
