// Bars over steps, stacked. Drawn in pixels of the box they have, so that text keeps its size at every width.
import { svgElement } from './dom.js';

export interface Bar {
  label: string;
  title: string;
  parts: { kind: string; value: number }[];
}

const HEIGHT = 180;
const MARGIN = { top: 10, right: 4, bottom: 22, left: 52 };
const LABEL_WIDTH = 26;
const MAX_BAR_WIDTH = 36;

/** Draws `bars` with room for `slots` of them; `format` writes the axis. */
export function drawBars(svg: SVGSVGElement, bars: readonly Bar[], slots: number, format: (value: number) => string): void {
  const width = Math.max(240, svg.parentElement?.clientWidth ?? 480);
  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute('height', String(HEIGHT));
  const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const ticks = scale(Math.max(0, ...bars.map(total)));
  const highest = ticks.at(-1) ?? 1;
  const y = (value: number) => MARGIN.top + inner.height * (1 - value / highest);

  const drawn: SVGElement[] = ticks.flatMap((tick) => [
    svgElement('line', { class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
    axisText(MARGIN.left - 8, y(tick) + 4, 'end', bars.length > 0 || tick === 0 ? short(format(tick)) : ''),
  ]);
  const slot = inner.width / Math.max(1, slots);
  const barWidth = Math.min(MAX_BAR_WIDTH, slot * 0.66);
  const every = Math.ceil(LABEL_WIDTH / slot);
  bars.forEach((bar, index) => {
    const middle = MARGIN.left + slot * (index + 0.5);
    drawn.push(stack(bar, middle - barWidth / 2, barWidth, y));
    if (index % every === 0) drawn.push(axisText(middle, HEIGHT - 6, 'middle', bar.label));
  });
  svg.replaceChildren(...drawn);
}

function axisText(x: number, y: number, anchor: 'middle' | 'end', text: string): SVGElement {
  return svgElement('text', { class: 'axis', x, y, 'text-anchor': anchor }, text);
}

/** Ticks are round numbers. */
function short(text: string): string {
  return text.replace(/\.0+ /, ' ');
}

function stack({ title, parts }: Bar, x: number, width: number, y: (value: number) => number): SVGElement {
  let sum = 0;
  const rects = parts.map(({ kind, value }) => {
    const bottom = y(sum);
    sum += value;
    return svgElement('rect', { class: kind, x, width, y: y(sum), height: Math.max(0, bottom - y(sum)) });
  });
  return svgElement('g', {}, svgElement('title', {}, title), ...rects);
}

function total({ parts }: Bar): number {
  return parts.reduce((sum, { value }) => sum + value, 0);
}

/** Round numbers from 0 to just above `highest`: 4 steps at most. */
export function scale(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  const unit = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => 4 * step >= highest) ?? 10 * power;
  return Array.from({ length: Math.ceil(highest / unit) + 1 }, (_, index) => index * unit);
}
