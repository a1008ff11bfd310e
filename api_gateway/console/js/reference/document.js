// The OpenAPI document as a list of operations, and the words to find one by.
const METHODS = ["get", "put", "post", "patch", "delete"];

/** `[{id, tag, method, path, summary, description, parameters, body, responses, secured, sought}]`, in the document's order. */
export function operationsOf(file) {
  return Object.entries(file.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => {
    const { operationId: id, tags: [tag = "other"] = [], summary = "", description = "", parameters = [], requestBody, responses, security } = item[method];
    const names = [...parameters.map(({ name }) => name), ...fieldsOf(requestBody, file.components.schemas)];
    const sought = [method, path, tag, summary, description, ...names].join(" ").toLowerCase();
    return { id, tag, method: method.toUpperCase(), path, summary, description, parameters, body: bodyOf(requestBody), responses, secured: Boolean(security?.length), sought };
  }));
}

/** `{mediaType, schema, example, required}` of a request; null without a body. JSON first where there is a choice. */
function bodyOf(requestBody) {
  if (!requestBody) return null;
  const choices = Object.entries(requestBody.content);
  const [mediaType, content] = choices.find(([name]) => name === "application/json") ?? choices[0];
  return { mediaType, required: Boolean(requestBody.required), ...content };
}

function fieldsOf(requestBody, schemas) {
  return Object.keys(resolved(bodyOf(requestBody)?.schema ?? {}, schemas).properties ?? {});
}

/** Follow `$ref`; fields beside it win. */
export function resolved(schema, schemas) {
  if (!schema.$ref) return schema;
  const { $ref, ...rest } = schema;
  return { ...resolved(schemas[$ref.split("/").pop()] ?? {}, schemas), ...rest };
}

/** The operations in which every word of the search occurs. */
export function matching(operations, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return operations.filter(({ sought }) => words.every((word) => sought.includes(word)));
}

/** `[tag, operations]` pairs, tags in the order of their first operation. */
export function grouped(operations) {
  const groups = new Map();
  for (const each of operations) groups.set(each.tag, [...(groups.get(each.tag) ?? []), each]);
  return [...groups];
}
