// The signed-in tenant. The key is in this tab's session storage and in request headers, and nowhere else.
import { createStore } from "./store.js";

const PLACE = "chordwise.key";

/** `null`, or `{key, tenant_id, name, scopes}`; `signedOn` for a person, whose key is a token that changes. */
export const session = createStore(null);

/** The reason for the end of the last session, as a message key; shown on the sign-in page. */
export const ended = createStore(null);

/** Queries of this tab, newest first: `{query_id, text, namespaces, at}`. In memory only. */
export const asked = createStore([]);

export const keptKey = () => sessionStorage.getItem(PLACE);

export const keepKey = (key) => (key ? sessionStorage.setItem(PLACE, key) : sessionStorage.removeItem(PLACE));

export function signIn(key, whose, { keep = true } = {}) {
  if (keep) keepKey(key);
  ended.set(null);
  session.set({ key, ...whose });
}

export function signOut(why = null) {
  keepKey(null);
  asked.set([]);
  ended.set(why && session.get()?.signedOn ? "signin.over" : why);
  session.set(null);
}

export const may = (scope) => session.get()?.scopes.includes(scope) ?? false;

export function noteAsked(entry) {
  asked.set([entry, ...asked.get().filter((each) => each.query_id !== entry.query_id)].slice(0, 50));
}
