// Documents that failed permanently: the cause, retry and deletion.
import { html, useState } from "../../html.js";
import { post, remove, segment } from "../../api.js";
import { ago, bytes, count, moment, short } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Segments, useNamespaces } from "../../parts/fields.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { reasonOf, said } from "../../sentences.js";
import { t, word } from "../../words.js";

const REASONS = ["", "rejected", "gave_up", "bug"];

export function DeadLetters() {
  const [reason, setReason] = useState("");
  const [namespace, setNamespace] = useState("");
  const namespaces = useNamespaces();
  const [dropping, setDropping] = useState(null);
  const [replayingAll, setReplayingAll] = useState(false);
  const letters = usePages("v1/dead-letters", { reason, namespace });

  const replay = useAction(async (letter) => {
    await post(`v1/dead-letters/${segment(letter.id)}/replay`);
    announce(t("dead.replayed", { count: count(1) }));
    letters.reload();
  });
  const replayAll = useAction(async () => {
    const chosen = { ...(reason && { reason }), ...(namespace && { namespace }) };
    const { replayed } = await post("v1/dead-letters/replay", reason || namespace ? chosen : { all: true });
    announce(t("dead.replayed", { count: count(replayed) }));
    letters.reload();
  });
  const drop = useAction(async (letter) => {
    await remove(`v1/dead-letters/${segment(letter.id)}`);
    announce(t("dead.dropped"));
    letters.reload();
  });

  const columns = [
    { key: "document", label: t("field.document"), main: true, render: (letter) => html`
      <span class="title">${letter.title || letter.document_id}</span> <span class="muted">${letter.namespace}</span>
      ${letter.title && letter.title !== letter.document_id && html`<code class="under">${letter.document_id}</code>`}` },
    { key: "reason", label: t("dead.reason"), render: (letter) => html`<${Badge} of=${letter.reason} label=${word("reason", letter.reason)} />` },
    { key: "detail", label: t("dead.detail"), wide: true, render: (letter) => html`<code>${letter.code}</code> ${reasonOf(letter)}
      <span class="under">${said(letter.advice)}</span>` },
    { key: "attempts", label: t("field.attempts"), numeric: true, render: (letter) => count(letter.attempts) },
    { key: "size", label: t("field.size"), numeric: true, render: (letter) => bytes(letter.payload?.bytes) },
    { key: "failed", label: t("dead.failed_at"), render: (letter) => html`
      <time title=${moment(letter.failed_at)}>${ago(letter.failed_at)}</time>` },
    { key: "job", label: t("jobs.job"), render: (letter) => html`<a href=${link("jobs", letter.job_id)}><code>${short(letter.job_id)}</code></a>` },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: (letter) => html`
      ${letter.retryable && html`<button disabled=${replay.busy} onClick=${() => replay.run(letter)}
        aria-label=${`${t("dead.replay")}: ${letter.document_id}`}>${t("dead.replay")}</button>`}
      <button class="quiet danger-text" onClick=${() => setDropping(letter)} aria-label=${`${t("dead.drop")}: ${letter.document_id}`}>${t("dead.drop")}</button>` },
  ].filter(Boolean);

  return html`
    <${Heading} title=${t("nav.dead-letters")} about=${t("dead.about")}>
      ${may("write") && letters.data?.rows.some((letter) => letter.retryable) && html`
        <button onClick=${() => setReplayingAll(true)}>${reason || namespace ? t("dead.replay_these") : t("dead.replay_all")}</button>`}
    <//>
    <div class="toolbar">
      <${Segments} label=${t("dead.reason")} value=${reason} onInput=${setReason}
        options=${REASONS.map((each) => [each, each ? word("reason", each) : t("field.all")])} />
      <${NamespaceChoice} value=${namespace} onInput=${setNamespace} namespaces=${namespaces} all=${t("field.all")} />
    </div>
    ${replay.error && html`<${Problem} error=${replay.error} />`}
    <${Loaded} of=${letters} empty=${html`<${Empty} title=${t("dead.empty")}><p>${t("dead.empty_text")}</p><//>`}>
      ${(data) => html`<${Table} caption=${t("nav.dead-letters")} columns=${columns} rows=${data.rows} rowKey=${(letter) => letter.id} />
        <${More} pages=${letters} />`}
    <//>
    ${dropping && html`<${Confirm} title=${t("dead.drop_title")} confirm=${t("dead.drop")} action=${drop} args=${[dropping]}
      close=${() => setDropping(null)}><p>${t("dead.drop_text", { document: dropping.document_id })}</p><//>`}
    ${replayingAll && html`<${Confirm} title=${t("dead.replay_all")} confirm=${t("dead.replay")} action=${replayAll} danger=${false}
      close=${() => setReplayingAll(false)}><p>${t("dead.replay_all_text")}</p><//>`}`;
}
