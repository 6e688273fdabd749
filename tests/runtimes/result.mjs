// How a module's result travels on the standard output of a process that other code prints to as well.
const MARK = 'PULSE-RESULT ';

export function encodeResult(value) {
  return MARK + (JSON.stringify(value) ?? 'null');
}

/** The JSON text of a result line; undefined for any other line. */
export function decodeResult(line) {
  return line.startsWith(MARK) ? line.slice(MARK.length) : undefined;
}
