/* The code of a link comes after its #, so that no server sees it before it is used. It is moved into the form. */
"use strict";
{
  const field = document.getElementById("id_code");
  const code = location.hash.slice(1);
  if (field && field.type !== "hidden" && code) {
    history.replaceState(history.state, "", location.pathname);
    field.value = code;
    field.form.submit();
  }
}
