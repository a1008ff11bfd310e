// Names, and where a passage comes from: the file or address of its document, and the sheet, slide or page in it.
import { html } from "../html.js";
import { pages } from "../format.js";
import { t } from "../words.js";

const SEPARATORS = /(?<=[/\\_.:@=&?#-])(?![/\\_.:@=&?#-])/;
const BOOK = /\.(xls[xm]?|ods)$/i;
const SLIDES = /\.(pptx?|odp)$/i;

/** A name or an address, which may break after its separators: a break inside a word is the last resort. */
export const Name = ({ text }) => String(text).split(SEPARATORS).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`);

const NAMED = 3;

/** The first of several names, and how many more there are; all of them in the title. */
export function Names({ of }) {
  const more = of.length - NAMED;
  return html`<span title=${more > 0 ? of.join(", ") : undefined}>${of.slice(0, NAMED).map((name, at) => html`${at > 0 && ", "}<${Name} text=${name} />`)}
    ${more > 0 && html` <span class="muted">+${more}</span>`}</span>`;
}

/** An address as people read it: files without their scheme. */
export const fileOf = (uri) => uri?.replace(/^file:(\/\/(?=\/))?/, "");

const fieldsOf = (of) => ("source_uri" in of ? of : of.metadata ?? {});

/** The sheet, slide or page of a passage; empty for a text without any. */
export function placeOf(of) {
  const { source_uri: uri, heading_path: headings, ...numbers } = fieldsOf(of);
  const file = uri || of.document_id;
  if (BOOK.test(file)) return headings?.[0] ? t("chunk.sheet", { name: headings[0] }) : "";
  if (numbers.page == null) return "";
  return SLIDES.test(file) ? t("chunk.slide", { page: pages(numbers) }) : t("chunk.page", { page: pages(numbers) });
}

/**
 * The file or address of a hit, a looked-up chunk, a citation or a document, and the place in it, in one line. A hit has
 * these fields in its metadata. Nothing is repeated that `title`, the name above it, says already.
 */
export function Origin({ of, title }) {
  const { source_uri: uri } = fieldsOf(of);
  const file = fileOf(uri) || of.document_id;
  const place = placeOf(of);
  const named = file !== title;
  if (!named && !place) return null;
  return html`<span class="origin under" title=${uri ?? of.document_id}>${named && html`<${Name} text=${file} />`}${named && place && " · "}${place}</span>`;
}

/** A document by its title, and below it by its id, its file and the place in it. `shown`: the title as a link, where there is one. */
export function DocumentName({ of, shown = (name) => name }) {
  const title = of.title || of.document_id;
  const file = fileOf(of.source?.uri);
  return html`${shown(html`<${Name} text=${title} />`)}
    ${title !== of.document_id && html`<code class="under"><${Name} text=${of.document_id} /></code>`}
    ${file && file !== of.document_id && file !== title && html`<span class="under"><${Name} text=${file} /></span>`}`;
}
