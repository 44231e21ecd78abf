// Tables and buttons: they change in place, so that the focus and the view stay.

export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Replaces a table's rows, cell by cell, so that a button keeps the focus while numbers change.
export function fill(table, head, rows, operates) {
  if (!table.tHead) {
    table.createTHead().append(make("tr", {}, ...head.map((text) => make("th", { scope: "col", textContent: text }))));
    table.append(make("tbody"));
  }
  const body = table.tBodies[0];
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const kept = new Map(known);
  for (const { key, cells, note, actions } of rows) {
    let row = known.get(key);
    known.delete(key);
    if (!row) {
      row = make("tr");
      row.dataset.key = key;
      row.append(...head.map(() => make("td")));
      body.append(row);
      kept.set(key, row);
    }
    cells.forEach((text, index) => {
      if (row.cells[index].textContent !== text) row.cells[index].textContent = text;
    });
    const last = row.cells[head.length - 1];
    const wanted = JSON.stringify([note, actions.map(([name]) => name), operates]);
    if (last.dataset.shows !== wanted) {
      last.dataset.shows = wanted;
      last.className = note ? "note" : "";
      const buttons = actions.map(([name, run]) => button(name, run, operates, key));
      last.replaceChildren(...(note ? [make("div", { textContent: note })] : []), make("div", { className: "actions" }, ...buttons));
    }
  }
  for (const row of known.values()) row.remove();
  // Only rows that are elsewhere are moved: a row that is moved loses its focus.
  rows.forEach(({ key }, index) => {
    if (body.rows[index].dataset.key !== key) body.insertBefore(kept.get(key), body.rows[index]);
  });
}

export function button(name, run, operates, whose = "") {
  const made = make("button", { type: "button", textContent: name, disabled: !operates });
  if (whose) made.setAttribute("aria-label", `${name} ${whose}`);
  if (!operates) made.title = "Log in with a token that may operate";
  made.addEventListener("click", run);
  return made;
}
