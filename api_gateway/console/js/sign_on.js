// Sessions of people who signed on at a provider. The browser keeps the session where no script reads it; the page has short tokens of it.
import { post, send } from "./api.js";
import { ended, session, signIn } from "./session.js";

const SIGNED_ON = "chordwise.signed-on"; // a mark without a secret: this browser may have a session
const FROM = "chordwise.from"; // the view from which the page went to the provider
const RENEWED_BEFORE_MS = 60000;
const REASONS = [
  "signin.on_no_role", "signin.on_no_tenant", "signin.on_not_valid", "signin.on_other_browser", "signin.on_provider_away",
  "signin.on_refused", "signin.on_stores_away",
];

let endsAt = Infinity;
let renewing = null;

export const isSignedOn = () => localStorage.getItem(SIGNED_ON) !== null;

/** Remember the present view for the return from the provider. */
export const leaveView = () => sessionStorage.setItem(FROM, location.hash);

/** Called with what the provider's answer came to: "" or the reason why nobody is signed on. Shows the view from before. */
export function cameBack(reason) {
  const from = sessionStorage.getItem(FROM) ?? "";
  sessionStorage.removeItem(FROM);
  if (reason) ended.set(REASONS.find((name) => name === `signin.on_${reason}`) ?? "signin.on_refused");
  else localStorage.setItem(SIGNED_ON, "");
  history.replaceState(null, "", from.startsWith("#/") && !from.startsWith("#/signed-on") ? from : "#/");
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Sign in with the browser's session. Raises ApiError, 401 without one. */
export async function resume(whose) {
  const key = await freshToken();
  signIn(key, { ...(await whose(key)), signedOn: true }, { keep: false });
}

async function freshToken() {
  const { body } = await send("POST", "console/sign-on/token", { key: null });
  endsAt = Date.now() + body.expires_in * 1000;
  return body.token;
}

/** The key for a request. A token that is about to end is renewed first, once for all requests that wait. Raises ApiError. */
export async function keyNow() {
  const who = session.get();
  if (!who?.signedOn || Date.now() < endsAt - RENEWED_BEFORE_MS) return who?.key;
  renewing ??= freshToken().then((key) => session.get() && session.set({ ...session.get(), key })).finally(() => { renewing = null; });
  await renewing;
  return session.get()?.key;
}

/** Forget that this browser has a session. */
export const forget = () => localStorage.removeItem(SIGNED_ON);

/** End the session at the gateway. Returns the address at which to sign out at the provider, null without one. Raises ApiError. */
export async function endSession() {
  const { address } = await post("console/sign-on/end", undefined, { key: null });
  forget();
  return address;
}
