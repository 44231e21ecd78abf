// The dialog: asks before something is done.

const at = (id) => document.getElementById(id);

// Resolves to the text that was given ("" without a label), or to null if it was cancelled.
export function ask(title, text, { label = "", secret = false, value = "" } = {}) {
  const dialog = at("ask");
  const input = at("ask-input");
  at("ask-title").textContent = title;
  at("ask-text").textContent = text;
  at("ask-label").textContent = label;
  input.hidden = at("ask-label").hidden = !label;
  input.type = secret ? "password" : "text";
  input.value = value;
  dialog.returnValue = "cancel";
  dialog.showModal();
  (label ? input : at("ask-ok")).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? input.value : null), { once: true });
  });
}

at("ask-cancel").addEventListener("click", () => at("ask").close("cancel"));
