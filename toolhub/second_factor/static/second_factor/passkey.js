/* Passkeys: asks the browser for one, and sends its answer with the form. Without it, a code can still be entered. */
"use strict";
{
  for (const one of document.querySelectorAll("[data-without-script]")) one.hidden = true;
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const readable = (options) => {
    options.challenge = bytes(options.challenge);
    if (options.user) options.user.id = bytes(options.user.id);
    for (const one of [...(options.excludeCredentials || []), ...(options.allowCredentials || [])]) one.id = bytes(one.id);
    return options;
  };
  const answer = (credential) => {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return JSON.stringify({ id: text(credential.rawId), response });
  };
  const form = document.querySelector("form[data-passkey]");
  if (form) {
    const button = form.querySelector("button");
    const note = form.querySelector("[role=status]");
    const words = form.dataset;
    const asked = async () => {
      const publicKey = readable(JSON.parse(words.options));
      return words.passkey === "make" ? navigator.credentials.create({ publicKey }) : navigator.credentials.get({ publicKey });
    };
    const failed = (error) => {
      if (error.name === "NotAllowedError" || error.name === "AbortError") return words.cancelled;
      if (error.name === "InvalidStateError") return words.known;
      if (error.name === "SecurityError") return words.insecure;
      return words.unsupported;
    };
    if (!window.isSecureContext || location.origin !== words.origin) note.textContent = words.insecure;
    else if (!window.PublicKeyCredential || !navigator.credentials) note.textContent = words.unsupported;
    else button.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      note.textContent = words.waiting;
      try {
        form.elements.passkey.value = answer(await asked());
        form.submit();
      } catch (error) {
        button.disabled = false;
        note.textContent = failed(error);
      }
    });
  }
}
