// Numbers as the page writes them: English, the same for everyone.
const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function whole(value: number): string {
  return WHOLE.format(value);
}

/** Three significant digits and a unit; powers of 1,000. */
export function bytes(value: number): string {
  let unit = 0;
  let scaled = value;
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? whole(scaled) : significant(scaled)} ${UNITS[unit]}`;
}

export function milliseconds(value: number): string {
  return value >= 999.5 ? `${significant(value / 1000)} s` : `${significant(value)} ms`;
}

export function percent(part: number, all: number): string {
  return all === 0 ? '–' : `${((100 * part) / all).toFixed(3)} %`;
}

/** `part` over `all`, with decimals; a dash where there is nothing to divide by. */
export function ratio(part: number, all: number, decimals: number): string {
  return all === 0 ? '–' : (part / all).toFixed(decimals);
}

export function optional(value: number | undefined, format: (value: number) => string = whole): string {
  return value === undefined ? '–' : format(value);
}

function significant(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
