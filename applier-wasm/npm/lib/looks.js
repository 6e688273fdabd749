// What bytes look like that are no patch: pages and pointers come with any status, from anywhere.
const MAGIC = [0x89, 0x50, 0x55, 0x4c, 0x53, 0x45];

function kindOf(text) {
  if (/^\s*(<!doctype html|<html)/i.test(text)) return 'HTML';
  if (text.startsWith('version https://git-lfs')) return 'a Git LFS pointer';
  if (/^\s*</.test(text)) return 'XML';
  if (/^\s*[{[]/.test(text)) return 'JSON';
  return 'text';
}

/** Says what the beginning of something is instead of a patch; undefined where it is one, or bytes that are damaged. */
export function otherThanPatch(bytes) {
  const head = bytes.subarray(0, 160);
  if (head.length < MAGIC.length || MAGIC.every((byte, index) => head[index] === byte)) return undefined;
  // Its last character may be cut.
  const text = new TextDecoder().decode(head, { stream: true });
  if (/[^\t\n\r -~\u00a0-\uffff]|\ufffd/.test(text)) return undefined;
  return `it looks like ${kindOf(text)}: ${JSON.stringify(text.slice(0, 80))}`;
}
