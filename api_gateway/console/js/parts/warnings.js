// What a parser warns of although the document was taken.
import { said } from "../sentences.js";

/** The sentences about unread pages and a doubtful encoding, of an item of a job or of a document's source. */
export const warningsOf = ({ pages_warning: pages, encoding_warning: encoding }) => [pages, encoding].filter(Boolean).map(said);
