// Elements without markup in texts: nothing here reads HTML, so no key or title can be a script.

/**
 * An element. Attributes: `class`, `text`, `on` (listeners by event), `data` (dataset), any other
 * name as it is; `null` and `false` leave an attribute out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null | false | undefined)} children
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a picture. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, { on = {}, data = {}, text, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name in PROPERTIES) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  for (const [name, value] of Object.entries(data)) if (value != null) node.dataset[name] = value;
  if (text != null) node.textContent = text;
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

// These are properties: as attributes they would only say how a field begins.
const PROPERTIES = { value: 1, checked: 1, disabled: 1, indeterminate: 1, hidden: 1 };

let last = 0;
/** An id for labels and descriptions. */
export const newId = (name = "id") => `${name}-${(last += 1)}`;

/** The value of a CSS variable, for drawing on a canvas. */
export const css = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
