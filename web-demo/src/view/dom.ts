type Child = Node | string;

/** The element with this id; the page's own markup has it. */
export function byId<E extends Element = HTMLElement>(id: string): E {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as unknown as E;
}

export function element(tag: string, attributes: Record<string, string> = {}, ...children: Child[]): HTMLElement {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function svgElement(tag: string, attributes: Record<string, string | number>, ...children: Child[]): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** A term and what is said of it, for a `dl`. */
export function fact(term: string, value: string, detail = ''): HTMLElement {
  const said = element('dd', {}, element('strong', {}, value));
  if (detail) said.append(element('small', {}, detail));
  return element('div', {}, element('dt', {}, term), said);
}
