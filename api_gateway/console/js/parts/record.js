// One record that people edit: saved under the version that was read, and a choice when somebody else was faster.
import { html, useRef, useState } from "../html.js";
import { send } from "../api.js";
import { useAction, useLoad } from "../load.js";
import { t } from "../words.js";

/**
 * Read `path` and save it with PUT under the ETag that was read. `body(draft)` makes the body; `path` null means a new
 * record. Returns `{loaded, save, conflict, mine, theirs}`: on a conflict `theirs` is the record as it is now, `mine()` saves over it,
 * and `theirsInstead()` shows it.
 */
export function useRecord(path, { onSaved = () => {} } = {}) {
  const etag = useRef(null);
  const [theirs, setTheirs] = useState(null);
  const waiting = useRef(null);
  const loaded = useLoad(async (signal) => {
    if (!path) return {};
    const { body, headers } = await send("GET", path, { signal });
    etag.current = headers.get("ETag") ?? body.etag ?? null;
    return body;
  }, [path]);

  const save = useAction(async (to, body) => {
    const headers = path && etag.current ? { "If-Match": etag.current } : {};
    const { body: answer, headers: answered, status } = await send("PUT", to, { json: body, headers, accept: [409, 412] });
    if (status === 409 || status === 412) {
      const now = await send("GET", to);
      waiting.current = [to, body, now.headers.get("ETag") ?? now.body.etag ?? null];
      setTheirs(now.body);
      return;
    }
    etag.current = answered.get("ETag") ?? answer.etag ?? null;
    setTheirs(null);
    onSaved(answer);
  });

  return {
    loaded, save, theirs,
    mine() {
      const [to, body, version] = waiting.current;
      etag.current = version;
      return save.run(to, body);
    },
    theirsInstead() {
      setTheirs(null);
      loaded.reload();
    },
  };
}

/** The choice after a conflict: keep mine, or take theirs. `show(record)` renders what the other person stored. */
export function Conflict({ record, show }) {
  if (!record.theirs) return null;
  return html`<div class="problem" role="alert">
    <p class="problem-title">${t("form.conflict")}</p>
    <p>${t("form.conflict_text")}</p>
    ${show(record.theirs)}
    <div class="buttons">
      <button type="button" class="primary" onClick=${record.theirsInstead}>${t("form.take_theirs")}</button>
      <button type="button" class="danger" disabled=${record.save.busy} onClick=${record.mine}>${t("form.keep_mine")}</button>
    </div>
  </div>`;
}
