// Who is signed in, and what their role lets them do. The gateway checks every request itself: this only hides buttons.

const RANKS = ["viewer", "operator", "admin"];
let caller = { name: "", role: "", via: "" };

/** Remember who is signed in: {name, role, via}. */
export function setCaller(found) {
  caller = { name: found.name, role: found.role, via: found.via };
}

/** Return who is signed in. */
export function whoAmI() {
  return caller;
}

/** Return whether the role of whoever is signed in is this one, or includes it. */
export function may(role) {
  return RANKS.indexOf(caller.role) >= RANKS.indexOf(role);
}
