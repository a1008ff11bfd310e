// The fields of a document that are a text and that filters compare as a whole, with the most characters of each; see
// chordwise/contract/document.py.
export const TEXT_FIELDS = { type: 64, author: 255 };
export const TEXT_NAMES = Object.keys(TEXT_FIELDS);
export const NO_TEXTS = Object.fromEntries(TEXT_NAMES.map((name) => [name, ""]));
